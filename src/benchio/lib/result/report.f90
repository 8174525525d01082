!> Text for a person: the table of a run, the plan of a dry run, the versions of benchio.
module benchio_report
    use, intrinsic :: iso_fortran_env, only: compiler_version, int64, real64
    use benchio_options, only: is_latency, is_learning, is_metadata
    use benchio_phases, only: part_names, part_stat, parts, phase_create, phase_list, &
        phase_mkdir, phase_names, phase_read, phase_rename, phase_rmdir, phase_stat, phase_sync, &
        phase_stable, phase_total, phase_unlink, phases, rate_stable, rate_total
    use benchio_quantiles, only: quantile_parts, quantiles
    use benchio_registry, only: backend_item, backend_names, new_backend
    use benchio_result, only: case_index, latencies, latency_phases, measured_rounds, &
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

    !> Returns a head, a table of the measured rounds, and what the witness says.
    function table_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        text = 'benchio '//version()//', run '//run%choice%run_id//': '//run%place%path//' (' &
            //run%place%filesystem//')'//lf//writers_text(run)//lf
        if (is_metadata(run%choice)) then
            text = text//names_table(run)
        else if (is_learning(run%choice)) then
            text = text//learning_table(run)
        else if (is_latency(run%choice)) then
            text = text//latency_table(run)
        else
            text = text//array_table(run)
        end if
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

    !> Returns a line per phase: operations a second of all ranks together.
    function names_table(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        integer, parameter :: order(*) = [phase_mkdir, phase_create, phase_stat, phase_list, &
            phase_rename, phase_read, phase_unlink, phase_rmdir]
        character(48) :: line
        integer :: i

        associate (times => run%records(1, measured_rounds(run, 1))%times)
            text = 'repeats '//decimal(size(times))//lf//lf &
                //'operations/s       min      median         max'//lf
            do i = 1, size(order)
                associate (rate => times%of_phase(order(i))%operations &
                    /times%of_phase(order(i))%window)
                    write (line, '(a10,3f12.1)') phase_names(order(i)), minval(rate), &
                        median(rate), maxval(rate)
                end associate
                text = text//trim(line)//lf
            end do
            write (line, '(f9.4)') median(times%of_phase(phase_sync)%window)
        end associate
        text = text//'sync after create: '//trim(adjustl(line))//' s (median)'//lf//lf &
            //'every name of every round was there once, with its size and content, and then ' &
            //'gone: seen by another rank, '//decimal(nint(100*run%plan%other_node_byte_fraction)) &
            //' % of them on another node'//lf
    end function names_table

    !> Returns a line per figure of reads that go from file to file.
    function learning_table(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        character(64) :: line
        integer :: i, number

        text = 'repeats '//decimal(size(measured_rounds(run, 1)))//'; in all ' &
            //mib_text(run%bytes)//' a round'//lf
        do number = 1, size(run%choice%operations)
            associate (times => run%records(number, measured_rounds(run, number))%times)
                write (line, '(a,t17,3a12)') run%choice%operations(number), 'min', 'median', 'max'
                text = text//lf//trim(line)//lf
                if (times(1)%of_phase(phase_stable)%occurs) then
                    call add('seconds, synced', times%of_phase(phase_stable)%window)
                    call add('MiB/s, synced', times%mib/times%of_phase(phase_stable)%window)
                    cycle
                end if
                call add('seconds', times%of_phase(phase_total)%window)
                call add('reads/s', times%of_phase(phase_read)%operations &
                    /times%of_phase(phase_read)%window)
                call add('MiB/s', times%mib/times%of_phase(phase_total)%window)
                do i = part_stat, parts
                    if (times(1)%of_part(i)%occurs) call add('  s in '//part_names(i), &
                        times%of_part(i)%mean)
                end do
            end associate
        end do
        text = text//lf//witness_line(run, 1)//lf

    contains

        subroutine add(name, values)
            character(*), intent(in) :: name
            real(real64), intent(in) :: values(:)

            write (line, '(a,t17,3f12.3)') name, minval(values), median(values), maxval(values)
            text = text//trim(line)//lf
        end subroutine add

    end function learning_table

    !> Returns a line per call, in microseconds, of the last round: each quantile with both ends of
    !> its interval.
    function latency_table(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        character(12) :: number
        integer :: end, i, q

        associate (latency => run%records(1, run%completed)%latency)
            text = 'repeats '//decimal(run%completed - run%choice%warmup)//'; the last, in ' &
                //'microseconds, with the 95 % interval of each quantile'//lf//lf &
                //'call       calls'
            do q = 1, quantiles
                write (number, '(f12.1)') 100*quantile_parts(q)
                text = text//'       p'//trim(adjustl(number))//'        from          to'
            end do
            text = text//lf
            do i = 1, latencies
                associate (figures => latency%of_call(i))
                    write (number, '(i8)') figures%calls
                    text = text//phase_names(latency_phases(i))//'  '//trim(number)
                    do q = 1, quantiles
                        do end = 1, 3
                            write (number, '(f12.1)') 1e6_real64*figures%values(end, q)
                            if (figures%values(end, q) < 0) number = repeat(' ', 11)//'-'
                            text = text//number
                        end do
                    end do
                end associate
                text = text//lf
            end do
            write (number, '(f12.3)') 1e6_real64*latency%clock
            text = text//lf//'the clock takes '//trim(adjustl(number))//' of each; reads came ' &
                //trim(merge('from below the page cache    ', 'perhaps from the page cache  ', &
                latency%is_cold))//lf//'every byte of every file is as written: read back by ' &
                //'pread on another descriptor, after the sync'//lf
        end associate
    end function latency_table

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

    function writers_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        associate (choice => run%choice)
            text = decimal(run%plan%ranks)//' ranks, '
            if (is_latency(choice)) then
                text = '1 rank, '//decimal(choice%seconds)//' s a round, files of 4 KiB'
            else if (is_metadata(choice)) then
                text = text//'each with '//decimal(choice%items)//' directories and files in ' &
                    //trim(merge('one directory for all ', 'a directory of its own', &
                    choice%files == 'shared'))
            else if (choice%operations(1) == 'samples') then
                text = text//'each reads '//decimal(choice%items)//' samples of ' &
                    //decimal(choice%sample_bytes)//' bytes, '//decimal(choice%per_file) &
                    //' in a file'
            else if (choice%operations(1) == 'checkpoint') then
                text = text//'each writes '//decimal(choice%items)//' shards of ' &
                    //decimal(choice%sample_bytes)//' bytes, and as much of a shared file'
            else if (choice%operations(1) == 'startup') then
                text = text//'each reads a tree of '//decimal(choice%items)//' files'
            else
                text = text//'files: '//choice%files//' ('//decimal(run%plan%files)//')'
                if (choice%instances > 1) text = text//', '//decimal(choice%instances)//' instances'
            end if
        end associate
    end function writers_text

    !> Says what a run would write, and the room there is for it.
    function plan_text(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        character(:), allocatable :: targets

        targets = ''
        if (size(run%choice%targets) > 0) targets = decimal(size(run%choice%targets)) &
            //' storage target(s) by themselves, '
        associate (choice => run%choice, block => run%plan%write_share%block)
            text = 'nothing is written (--dry-run)'//lf//'ranks            '//writers_text(run)//lf
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
