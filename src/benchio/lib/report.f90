!> What benchio says to a person: the table of a run, the plan of a dry run, its versions.
module benchio_report
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_measurement, only: phase_names, phases, rate_total
    use benchio_registry, only: backend_names, library_version
    use benchio_result, only: run_result, summary, verified
    use benchio_statistics, only: median, statistics
    use benchio_text, only: decimal, extents
    use benchio_version, only: version
    implicit none (type, external)
    private

    public :: plan_text, table_text, version_text

    character(1), parameter :: lf = new_line('a')

contains

    !> A line per backend: bandwidth over the measured rounds, median seconds of each phase.
    function table_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        character(80) :: line
        type(statistics) :: total
        integer :: backend, first, phase

        text = 'benchio '//version//': '//run%place%path//' ('//run%place%filesystem//')'//lf &
            //decimal(size(run%host_of_rank))//' writers on a grid of '//extents(run%choice%grid) &
            //', array '//extents(run%choice%global_size)//' = ' &
            //mib_text(run%block%global_bytes())//' a round'//lf &
            //'repeats '//decimal(run%choice%repeats)//', sync '//run%choice%sync//', verify ' &
            //run%choice%verify//lf//lf &
            //'            total MiB/s, open to close           median seconds'//lf &
            //'backend      min   median      max     mean'
        do phase = 1, phases
            text = text//repeat(' ', 9 - len_trim(phase_names(phase)))//trim(phase_names(phase))
        end do
        text = text//lf

        first = run%choice%warmup + 1
        do backend = 1, size(run%choice%backends)
            if (verified(run)) then
                total = summary(run, backend, rate_total)
                write (line, '(a,4f9.1)') run%choice%backends(backend), total%min, total%median, &
                    total%max, total%mean
            else
                write (line, '(a,4a9)') run%choice%backends(backend), '-', '-', '-', '-'
            end if
            text = text//trim(line)
            do phase = 1, phases
                write (line, '(f9.4)') median(run%records(backend, first:)%times(phase)%max)
                text = text//trim(line)
            end do
            text = text//lf
        end do

        if (.not. verified(run)) then
            text = text//lf//'not verified: no bandwidth without a verified write'//lf
        else if (run%choice%verify == 'all') then
            text = text//lf//'every round was read back and is as written'//lf
        else
            text = text//lf//'the last round was read back and is as written'//lf
        end if
    end function table_text

    !> What a run would write, and the room there is for it.
    function plan_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        associate (choice => run%choice)
            text = 'nothing is written (--dry-run)'//lf &
                //'writers          '//decimal(size(run%host_of_rank))//' on a grid of ' &
                //extents(choice%grid)//lf &
                //'each file        '//extents(choice%global_size)//' elements, ' &
                //decimal(run%block%global_bytes())//' bytes (' &
                //mib_text(run%block%global_bytes())//')'//lf &
                //'files            '//decimal(size(choice%backends))//' in each of ' &
                //decimal(choice%warmup + choice%repeats)//' rounds, ' &
                //merge('those of the last round kept', 'each removed before the next', &
                choice%keep)//lf &
                //'memory per rank  '//mib_text(run%block%field_bytes()) &
                //' for the array on rank 0, plus the libraries'' buffers'//lf &
                //'free             '//mib_text(run%place%free_bytes)//' in '//run%place%path &
                //' ('//run%place%filesystem//')'//lf
        end associate
    end function plan_text

    !> benchio's version and what each library says of its own.
    function version_text() result(text)
        character(:), allocatable :: text

        character(:), allocatable :: library
        integer :: i

        text = 'benchio '//version//lf
        do i = 1, size(backend_names)
            library = library_version(trim(backend_names(i)))
            if (library == '') library = 'not built in'
            text = text//backend_names(i)//'  '//library//lf
        end do
    end function version_text

    pure function mib_text(bytes) result(text)
        integer(int64), intent(in) :: bytes
        character(:), allocatable :: text

        character(24) :: buffer

        write (buffer, '(f20.1)') real(bytes, real64)/2.0_real64**20
        text = trim(adjustl(buffer))//' MiB'
    end function mib_text

end module benchio_report
