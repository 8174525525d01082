!> Text for a person: the table of a run, the plan of a dry run, the versions of benchio.
module benchio_report
    use, intrinsic :: iso_fortran_env, only: compiler_version, int64, real64
    use benchio_phases, only: phase_names, phases, rate_stable, rate_total
    use benchio_posix, only: version
    use benchio_registry, only: backend_item, backend_names, new_backend
    use benchio_result, only: case_index, measured_rounds, negligible_fraction, run_result
    use benchio_statistics, only: median
    use benchio_text, only: decimal, extents, rate_text
    use benchio_witness, only: testimony
    implicit none (type, external)
    private

    public :: array_table, mib_text, plan_text, table_text, version_text, witness_line

    character(1), parameter, public :: lf = new_line('a')

contains

    !> Returns a head, a table of the measured rounds, and what the witness says.
    function table_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        text = 'benchio '//version()//', run '//run%choice%run_id//': '//run%place%path//' (' &
            //run%place%filesystem//')'//lf//run%operation%says(run)//lf
        text = text//run%operation%table(run)
    end function table_text

    !> Returns a line per case: bandwidth, and median seconds of each phase that occurs.
    function array_table(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        character(:), allocatable :: indent, label
        integer :: i, j, t, target_width
        logical :: occurs(phases)               ! in any case

        occurs = [(any(run%records(:, run%completed)%times%of_phase(i)%occurs), i=1, phases)]
        associate (targets => run%place%targets, block => run%plan%write_share%block, &
            choice => run%choice)
            target_width = maxval([(len(targets(i)%name) + 1, i=1, size(targets))])
            if (size(choice%targets) == 0) target_width = 0
            indent = repeat(' ', target_width + 15)
            label = indent(2:)
            text = 'each file: array '//extents(block%global)//' on a grid of ' &
                //extents(block%grid)//'; in all '//mib_text(run%bytes)//' a round'//lf &
                //'repeats '//decimal(run%completed - choice%warmup)//lf//lf//indent &
                //'   total MiB/s, open to close    stable           median seconds'//lf &
                //'case'//indent//'min   median      max     mean   median'
            do i = 1, phases
                if (occurs(i)) text = text//right(trim(phase_names(i)))
            end do
            text = text//lf
            do j = 1, size(choice%operations)
                do i = 1, size(choice%backends)
                    do t = 1, size(targets)
                        label(:14) = trim(choice%operations(j))//' '//choice%backends(i)
                        label(15:) = targets(t)%name
                        text = text//label//case_text(run, case_index(choice, &
                            trim(choice%operations(j)), i, t), occurs)//lf
                    end do
                end do
            end do
            text = text//lf//'stable: open to the end of the sync'//lf
            do t = 1, size(targets)
                if (targets(t)%error%failed()) text = text//'target '//targets(t)%name &
                    //' was left out from then on: '//targets(t)%error%line()//lf
            end do
            do i = 1, size(choice%backends)
                text = text//witness_line(run, i)//lf
            end do
        end associate
    end function array_table

    !> Returns rates and seconds of a case in columns.
    function case_text(run, number, occurs) result(text)
        type(run_result), intent(in) :: run
        integer, intent(in) :: number
        logical, intent(in) :: occurs(phases)
        character(:), allocatable :: text

        character(9) :: seconds
        real(real64), allocatable :: rate(:)
        integer, allocatable :: rounds(:)
        integer :: i, phase

        allocate (rounds, source=measured_rounds(run, number))
        text = 'failed'
        if (size(rounds) == 0) return
        associate (times => run%records(number, rounds)%times)
            rate = [(times(i)%rate(rate_total), i=1, size(times))]
            text = rate_text(minval(rate))//rate_text(median(rate))//rate_text(maxval(rate)) &
                //rate_text(sum(rate)/size(rate))
            if (times(1)%has_rate(rate_stable)) then
                text = text//rate_text(median([(times(i)%rate(rate_stable), i=1, size(times))]))
            else
                text = text//right('-')
            end if
            do phase = 1, phases
                seconds = right('-')
                if (times(size(times))%of_phase(phase)%occurs) then
                    write (seconds, '(f9.4)') median(times%of_phase(phase)%window)
                end if
                if (occurs(phase)) text = text//seconds
            end do
        end associate
    end function case_text

    !> Says how a backend's files were confirmed, in the worst of the rounds on all targets.
    function witness_line(run, backend) result(text)
        type(run_result), intent(in) :: run
        integer, intent(in) :: backend
        character(:), allocatable :: text

        integer :: first
        type(testimony), allocatable :: testimonies(:)
        real(real64) :: unsynced

        first = case_index(run%choice, trim(run%choice%operations(1)), backend, 1)
        associate (records => run%records(first:first + size(run%place%targets) - 1, &
            :run%completed))
            testimonies = pack(records%witness, records%round > 0)
        end associate
        text = trim(run%choice%backends(backend))//': every byte of every round is as written: ' &
            //'read back '//trim(merge('through the library', 'by pread           ', &
            any(testimonies%is_through_library)))
        if (all(testimonies%is_direct)) then
            text = text//', past the page cache'
        else if (any(testimonies%page_cache_fraction < 0)) then
            text = text//', whether from a page cache is not known'
        else
            text = text//', '//percent(maxval(testimonies%page_cache_fraction)) &
                //' of it from the page cache'
        end if
        unsynced = maxval(testimonies%unsynced_fraction)
        if (unsynced > negligible_fraction) text = text//'; the sync had left '//percent(unsynced) &
            //' of it in the page cache, to be written later'
    end function witness_line

    !> Says what a run would write, and the room there is for it.
    function plan_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        character(:), allocatable :: targets

        targets = ''
        if (size(run%choice%targets) > 0) targets = decimal(size(run%choice%targets)) &
            //' storage target(s) by themselves, '
        associate (choice => run%choice, block => run%plan%write_share%block)
            text = 'nothing is written (--dry-run)'//lf//'ranks            ' &
                //run%operation%says(run)//lf
            if (.not. choice%settings%has_no_array) text = text &
                //'first file       '//extents(block%global)//' elements on a grid of ' &
                //extents(block%grid)//', '//decimal(block%global_bytes())//' bytes'//lf &
                //'each round       '//mib_text(run%bytes)//', '//decimal(size(choice%backends)) &
                //' backend(s), '//targets &
                //trim(merge('files kept   ', 'files removed', choice%keeps))//lf &
                //'memory per rank  '//mib_text(block%field_bytes()) &
                //' for the array on rank 0, plus the libraries'' buffers'//lf
            text = text//'rounds           '//decimal(choice%warmup + choice%repeats)//lf &
                //'free             '//mib_text(run%place%mounted%free_bytes)//' in ' &
                //run%place%path//' ('//run%place%filesystem//')'//lf
        end associate
    end function plan_text

    !> Returns the version of benchio and of each library, and what only some builds of one have.
    function version_text() result(text)
        character(:), allocatable :: text

        character(:), allocatable :: extra
        type(backend_item) :: item
        integer :: i

        extra = ''
        text = 'benchio '//version()//lf//'compiler '//compiler_version()//lf
        do i = 1, size(backend_names)
            item = new_backend(trim(backend_names(i)))
            if (.not. allocated(item%method)) then
                text = text//backend_names(i)//'  not built in'//lf
                cycle
            end if
            text = text//backend_names(i)//'  '//item%method%version()//lf
            extra = extra//item%method%extra()
        end do
        if (extra /= '') text = text//extra//lf
    end function version_text

    pure function mib_text(bytes) result(text)
        integer(int64), intent(in) :: bytes
        character(:), allocatable :: text

        character(24) :: buffer

        write (buffer, '(f20.1)') real(bytes, real64)/2.0_real64**20
        text = trim(adjustl(buffer))//' MiB'
    end function mib_text

    pure function percent(part) result(text)
        real(real64), intent(in) :: part
        character(:), allocatable :: text

        character(8) :: buffer

        write (buffer, '(f8.1)') 100*part
        text = trim(adjustl(buffer))//' %'
    end function percent

    !> Moves a text to the right of a column of nine.
    pure function right(text) result(column)
        character(*), intent(in) :: text
        character(9) :: column

        write (column, '(a9)') text
    end function right

end module benchio_report
