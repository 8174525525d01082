!> What benchio says to a person: the table of a run, the plan of a dry run, its versions.
module benchio_report
    use, intrinsic :: iso_fortran_env, only: compiler_version, int64, real64
    use benchio_options, only: is_metadata
    use benchio_phases, only: phase_create, phase_list, phase_mkdir, phase_names, phase_read, &
        phase_rename, phase_rmdir, phase_stat, phase_sync, phase_unlink, phases, rate_stable, &
        rate_total
    use benchio_registry, only: backend_item, backend_names, new_backend
    use benchio_result, only: case_index, measured_rates, measured_rounds, &
        negligible_fraction, run_result
    use benchio_statistics, only: median
    use benchio_text, only: decimal, extents, rate_text
    use benchio_version, only: version
    use benchio_witness, only: testimony
    implicit none (type, external)
    private

    public :: plan_text, table_text, version_text

    character(1), parameter :: lf = new_line('a')

contains

    !> A line per case: bandwidth over the measured rounds, median seconds of each phase; and what
    !> the witness says.
    function table_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        integer :: backend, operation, phase, t

        if (is_metadata(run%choice)) then
            text = metadata_table(run)
            return
        end if
        associate (plan => run%plan, choice => run%choice)
            text = 'benchio '//version()//', run '//choice%run_id//': '//run%place%path//' (' &
                //run%place%filesystem//')'//lf//writers_text(run)//lf//'each file: array ' &
                //extents(plan%own%block%global)//' on a grid of ' &
                //extents(plan%own%block%grid)//'; in all '//mib_text(run%bytes)//' a round'//lf &
                //'repeats '//decimal(run%completed - choice%warmup)//lf//lf &
                //repeat(' ', name_width(run) + 18)//'total MiB/s, open to close    stable' &
                //'           median seconds'//lf//'case'//repeat(' ', name_width(run) + 15) &
                //'min   median      max     mean   median'
            do phase = 1, phases
                if (occurs(run, phase)) text = text//repeat(' ', 9 - len_trim(phase_names(phase))) &
                    //trim(phase_names(phase))
            end do
            text = text//lf
            do operation = 1, size(choice%operations)
                do backend = 1, size(choice%backends)
                    do t = 1, size(run%place%targets)
                        text = text//case_line(run, trim(choice%operations(operation)), backend, &
                            t)//lf
                    end do
                end do
            end do
            text = text//lf//'stable: open to the end of the sync'//lf
            do t = 1, size(run%place%targets)
                associate (error => run%place%targets(t)%error)
                    if (error%failed()) text = text//'target '//run%place%targets(t)%name &
                        //' was left out from then on: '//error%line()//lf
                end associate
            end do
            do backend = 1, size(choice%backends)
                text = text//witness_line(run, backend)//lf
            end do
        end associate
    end function table_text

    !> A line per phase: operations a second over the measured rounds, of all ranks together.
    function metadata_table(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        real(real64), allocatable :: rate(:)
        integer, allocatable :: rounds(:)
        integer, parameter :: order(*) = [phase_mkdir, phase_create, phase_stat, phase_list, &
            phase_rename, phase_read, phase_unlink, phase_rmdir]
        character(48) :: line
        integer :: i, phase

        allocate (rounds, source=measured_rounds(run, 1))
        allocate (rate(size(rounds)))
        text = 'benchio '//version()//', run '//run%choice%run_id//': '//run%place%path//' (' &
            //run%place%filesystem//')'//lf//items_text(run)//lf//'repeats ' &
            //decimal(size(rounds))//lf//lf//'operations/s       min      median         max'//lf
        do phase = 1, size(order)
            associate (found => run%records(1, rounds)%times%of_phase(order(phase)))
                rate = [(found(i)%operations/found(i)%window, i=1, size(rounds))]
            end associate
            write (line, '(a10,3f12.1)') phase_names(order(phase)), minval(rate), median(rate), &
                maxval(rate)
            text = text//trim(line)//lf
        end do
        write (line, '(f9.4)') median(run%records(1, rounds)%times%of_phase(phase_sync)%window)
        text = text//'sync after create: '//trim(adjustl(line))//' s (median)'//lf
        write (line, '(i0)') nint(100*run%plan%other_node_fraction)
        text = text//lf//'every name of every round was there once, with its size and content, ' &
            //'and then gone: seen by another rank, '//trim(line)//' % of them on another node'//lf
    end function metadata_table

    function items_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        text = decimal(run%plan%ranks)//' writers, each with '//decimal(run%choice%items) &
            //' directories and files in '
        if (run%choice%files == 'shared') then
            text = text//'one directory for all'
        else
            text = text//'a directory of its own'
        end if
    end function items_text

    function case_line(run, operation, backend, target) result(text)
        type(run_result), intent(in) :: run
        character(*), intent(in) :: operation
        integer, intent(in) :: backend, target
        character(:), allocatable :: text

        character(80) :: line
        real(real64), allocatable :: rate(:)
        integer, allocatable :: rounds(:)
        character(:), allocatable :: name
        integer :: number, phase

        number = case_index(run%choice, operation, backend, target)
        allocate (rounds, source=measured_rounds(run, number))
        line = operation//' '//run%choice%backends(backend)
        text = line(:14)
        name = run%place%targets(target)%name
        text = text//name//repeat(' ', name_width(run) - len(name))
        if (size(rounds) == 0) then
            text = text//'failed'
            return
        end if
        rate = measured_rates(run, number, rate_total)
        text = text//rate_text(minval(rate))//rate_text(median(rate))//rate_text(maxval(rate)) &
            //rate_text(sum(rate)/size(rate))
        line = '        -'
        if (run%records(number, rounds(1))%times%has_rate(rate_stable)) then
            line = rate_text(median(measured_rates(run, number, rate_stable)))
        end if
        text = text//line(:9)
        do phase = 1, phases
            if (.not. occurs(run, phase)) cycle
            line = '        -'
            if (run%records(number, rounds(size(rounds)))%times%of_phase(phase)%occurs) then
                write (line, '(f9.4)') median(run%records(number, rounds)%times &
                    %of_phase(phase)%window)
            end if
            text = text//line(:9)
        end do
    end function case_line

    !> Columns for the names of targets; 0 where there are none.
    pure integer function name_width(run)
        type(run_result), intent(in) :: run

        integer :: i

        name_width = 0
        if (size(run%choice%targets) == 0) return
        name_width = maxval([(len(run%place%targets(i)%name), i=1, size(run%place%targets))]) + 1
    end function name_width

    !> Whether any case has a phase.
    pure logical function occurs(run, phase)
        type(run_result), intent(in) :: run
        integer, intent(in) :: phase

        occurs = any(run%records(:, run%completed)%times%of_phase(phase)%occurs)
    end function occurs

    !> How a backend's files were confirmed, in the worst of the rounds.
    function witness_line(run, backend) result(text)
        type(run_result), intent(in) :: run
        integer, intent(in) :: backend
        character(:), allocatable :: text

        character(16) :: percent
        type(testimony), allocatable :: said(:)
        real(real64) :: largest

        allocate (said, source=testimonies(run, backend))
        text = trim(run%choice%backends(backend)) &
            //': every byte of every round is as written: read back '
        if (any(said%is_through_library)) then
            text = text//'through the library'
        else
            text = text//'by pread'
        end if
        largest = maxval(said%page_cache_fraction)
        if (all(said%is_direct)) then
            text = text//', past the page cache'
        else if (any(said%page_cache_fraction < 0)) then
            text = text//', whether from a page cache is not known'
        else
            write (percent, '(f8.1)') 100*largest
            text = text//', '//trim(adjustl(percent))//' % of it from the page cache'
        end if
        largest = maxval(said%unsynced_fraction)
        if (largest > negligible_fraction) then
            write (percent, '(f8.1)') 100*largest
            text = text//'; the sync had left '//trim(adjustl(percent)) &
                //' % of it in the page cache, to be written later'
        end if
    end function witness_line

    !> What the witness said of a backend's files in all rounds, on all targets.
    function testimonies(run, backend) result(said)
        type(run_result), intent(in) :: run
        integer, intent(in) :: backend
        type(testimony), allocatable :: said(:)

        integer :: first

        associate (targets => size(run%place%targets))
            first = case_index(run%choice, trim(run%choice%operations(1)), backend, 1)
            associate (records => run%records(first:first + targets - 1, :run%completed))
                said = pack(records%witness, records%round > 0)
            end associate
        end associate
    end function testimonies

    function writers_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        associate (choice => run%choice)
            text = decimal(run%plan%ranks)//' writers, files: '//choice%files//' (' &
                //decimal(run%plan%files)//')'
            if (choice%instances > 1) text = text//', '//decimal(choice%instances)//' instances'
        end associate
    end function writers_text

    pure function targets_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        text = ''
        if (size(run%choice%targets) > 0) text = decimal(size(run%choice%targets)) &
            //' storage target(s) by themselves, '
    end function targets_text

    !> What a run would write, and the room there is for it.
    function plan_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        if (is_metadata(run%choice)) then
            text = 'nothing is written (--dry-run)'//lf//items_text(run)//lf//'rounds ' &
                //decimal(run%choice%warmup + run%choice%repeats)//lf//mib_text(run%place%mounted &
                %free_bytes)//' are free in '//run%place%path//' ('//run%place%filesystem//')'//lf
            return
        end if
        associate (choice => run%choice, block => run%plan%own%block)
            text = 'nothing is written (--dry-run)'//lf &
                //'writers          '//writers_text(run)//lf &
                //'first file       '//extents(block%global)//' elements on a grid of ' &
                //extents(block%grid)//', '//decimal(block%global_bytes())//' bytes'//lf &
                //'each round       '//mib_text(run%bytes)//', '//decimal(size(choice%backends)) &
                //' backend(s), '//targets_text(run) &
                //trim(merge('files kept   ', 'files removed', choice%keeps))//lf &
                //'rounds           '//decimal(choice%warmup + choice%repeats)//lf &
                //'memory per rank  '//mib_text(block%field_bytes()) &
                //' for the array on rank 0, plus the libraries'' buffers'//lf &
                //'free             '//mib_text(run%place%mounted%free_bytes)//' in ' &
                //run%place%path//' ('//run%place%filesystem//')'//lf
        end associate
    end function plan_text

    !> benchio's version, what each library says of its own, and what only some builds of one have.
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

end module benchio_report
