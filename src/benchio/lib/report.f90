!> What benchio says to a person: the table of a run, the plan of a dry run, its versions.
module benchio_report
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_measurement, only: phase_names, phases, rate_total
    use benchio_registry, only: backend_names, library_version
    use benchio_result, only: run_result, summary, verified
    use benchio_statistics, only: median, statistics
    use benchio_team, only: case_index
    use benchio_text, only: decimal, extents
    use benchio_version, only: version
    implicit none (type, external)
    private

    public :: plan_text, table_text, version_text

    character(1), parameter :: lf = new_line('a')

contains

    !> A line per case: bandwidth over the measured rounds, median seconds of each phase.
    function table_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        integer :: backend, operation, phase

        associate (group => run%group, choice => run%group%choice)
            text = 'benchio '//version//': '//group%place%path//' ('//group%place%filesystem//')' &
                //lf//writers_text(run)//lf//'each file: array ' &
                //extents(group%own%block%global)//' on a grid of ' &
                //extents(group%own%block%grid)//'; in all '//mib_text(run%bytes)//' a round'//lf &
                //'repeats '//decimal(run%completed - choice%warmup)//', sync '//choice%sync &
                //', verify '//choice%verify//lf//lf &
                //'                  total MiB/s, open to close           median seconds'//lf &
                //'case               min   median      max     mean'
            do phase = 1, phases
                if (occurs(run, phase)) text = text//repeat(' ', 9 - len_trim(phase_names(phase))) &
                    //trim(phase_names(phase))
            end do
            text = text//lf
            do operation = 1, size(choice%operations)
                do backend = 1, size(choice%backends)
                    text = text//case_line(run, trim(choice%operations(operation)), backend)//lf
                end do
            end do

            if (.not. verified(run)) then
                text = text//lf//'not verified: no bandwidth without a verified write'//lf
            else if (choice%verify == 'all') then
                text = text//lf//'every round was read back and is as written'//lf
            else
                text = text//lf//'the last round was read back and is as written'//lf
            end if
        end associate
    end function table_text

    function case_line(run, operation, backend) result(text)
        type(run_result), intent(in) :: run
        character(*), intent(in) :: operation
        integer, intent(in) :: backend
        character(:), allocatable :: text

        character(80) :: line
        type(statistics) :: total
        integer :: first, number, phase

        number = case_index(run%group%choice, operation, backend)
        first = run%group%choice%warmup + 1
        line = operation//' '//run%group%choice%backends(backend)
        text = line(:14)
        if (verified(run)) then
            total = summary(run, number, rate_total)
            write (line, '(4f9.1)') total%min, total%median, total%max, total%mean
        else
            write (line, '(4a9)') '-', '-', '-', '-'
        end if
        text = text//line(:36)
        do phase = 1, phases
            if (.not. occurs(run, phase)) cycle
            write (line, '(f9.4)') median(run%records(number, first:run%completed)%times(phase)%max)
            text = text//line(:9)
        end do
    end function case_line

    !> Whether any case spent time in a phase.
    pure logical function occurs(run, phase)
        type(run_result), intent(in) :: run
        integer, intent(in) :: phase

        occurs = any(run%records(:, :run%completed)%times(phase)%max > 0)
    end function occurs

    function writers_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        associate (choice => run%group%choice)
            text = decimal(run%group%ranks)//' writers, files: '//choice%files//' (' &
                //decimal(maxval(run%group%file) + 1)//')'
            if (choice%instances > 1) text = text//', '//decimal(choice%instances)//' instances'
        end associate
    end function writers_text

    !> What a run would write, and the room there is for it.
    function plan_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        associate (group => run%group, choice => run%group%choice, block => run%group%own%block)
            text = 'nothing is written (--dry-run)'//lf &
                //'writers          '//writers_text(run)//lf &
                //'first file       '//extents(block%global)//' elements on a grid of ' &
                //extents(block%grid)//', '//decimal(block%global_bytes())//' bytes'//lf &
                //'each round       '//mib_text(run%bytes)//', '//decimal(size(choice%backends)) &
                //' backend(s), '//merge('last files kept', 'files removed  ', choice%keep)//lf &
                //'rounds           '//decimal(choice%warmup + choice%repeats)//lf &
                //'memory per rank  '//mib_text(block%field_bytes()) &
                //' for the array on rank 0, plus the libraries'' buffers'//lf &
                //'free             '//mib_text(group%place%free_bytes)//' in '//group%place%path &
                //' ('//group%place%filesystem//')'//lf
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
