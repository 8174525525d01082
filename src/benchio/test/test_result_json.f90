!> The texts of a result, as JSON and for a person, byte by byte, of runs made up so that each
!> branch is taken.
!>
!> After a change that is meant, copy what the test has made, *.json and *.txt in the build's test
!> folder, over test/golden.
program test_result_json
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_command_line, only: parse_options
    use benchio_decomposition, only: new_decomposition
    use benchio_failure, only: exit_internal, exit_io, exit_time_limit, exit_verification, failure
    use benchio_file_layout, only: add_component, component, file_layout
    use benchio_node_state, only: facts, not_known
    use benchio_mount, only: mounted_filesystem
    use benchio_nodes, only: rank_run
    use benchio_operations, only: operation_of
    use benchio_options, only: layout_requests, plan_array
    use benchio_phases, only: part_gather, part_pack, phase_close, phase_create, phase_define, &
        phase_flush, phase_list, phase_mkdir, phase_open, phase_read, phase_rename, phase_rmdir, &
        phase_stable, phase_stat, phase_sync, phase_time, phase_total, phase_unlink, phase_write, &
        spread_of, timing
    use benchio_report, only: plan_text, table_text
    use benchio_result, only: has_cases, repetition, run_result
    use benchio_result_json, only: result_json
    use benchio_settings, only: hint
    use benchio_witness, only: testimony
    use check, only: expect
    use command_lines, only: words
    implicit none (type, external)

    !> Time of everything made up.
    character(*), parameter :: noon = '2026-01-02T12:00:00.000Z'

    !> Values that are another on every machine: "..." stands for them.
    character(*), parameter :: varying(*) = [character(16) :: 'version', 'compiler', &
        'compiler_options', 'mpi', 'hdf5', 'netcdf', 'pnetcdf', 'adios2']

    integer, parameter :: write_phases(*) = [phase_open, phase_define, phase_write, phase_flush, &
        phase_close, phase_sync, phase_total, phase_stable, phase_unlink]
    integer, parameter :: read_phases(*) = [phase_open, phase_define, phase_read, phase_close, &
        phase_total]
    integer, parameter :: name_phases(*) = [phase_mkdir, phase_create, phase_sync, phase_stat, &
        phase_list, phase_rename, phase_read, phase_unlink, phase_rmdir]

    character(:), allocatable :: folder
    logical :: is_alike = .true.
    integer :: length
    type(run_result) :: run

    call get_command_argument(1, length=length)
    allocate (character(length) :: folder)
    call get_command_argument(1, folder)

    call targets_on_lustre()
    call compare('targets')
    call subfiles_that_are_there()
    call compare('existing')
    call names_alone()
    call compare('names')
    call failed_run()
    call compare('failed')
    call expect(is_alike, 'the texts as they are in '//folder)
    call expect(status_text(exit_verification) == '"verification_error"', 'wrong data')
    call expect(status_text(exit_internal) == '"internal_error"', 'an internal error')
    call expect(status_text(exit_time_limit) == '"time_limit"', 'the time limit')

contains

    !> Writes and reads of two OSTs in two instances: the second has failed.
    subroutine targets_on_lustre()
        integer :: number

        call new_run('--backend mpiio,posix --operation write-keep,read --files process ' &
            //'--instances 2 --targets 3,5 --stripe-size 1MiB --hint cb_nodes=2 --run-id made-up ' &
            //'--local-size 4x3x2 --repeats 1 --flush --collective no --file-format latest', 4)
        run%place%filesystem = 'lustre'
        run%place%mounted%type = 'lustre'
        run%place%mdt_index = 1
        run%facts_of_node(:, 1) = [1.5_real64, 0.0_real64, not_known, 0.25_real64, 0.0_real64, &
            not_known]
        run%choice%settings%alignment = 4096
        run%seen(1, 1)%hints = [hint('cb_nodes', '2'), hint('romio "x"', 'ena\ble')]
        run%around%variables = [hint('OMPI_MCA_io_base', '"'), hint('LD_PRELOAD', '')]
        run%around%contents = [hint('~/.openmpi/mca-params.conf', '0123456789abcdef')]
        run%around%libraries = [hint('mca_io_ompio.so', '/lib/mca_io_ompio.so'), &
            hint('mca_io_romio321.so', '/lib/mca_io_romio321.so')]
        run%around%other_rank = 2
        deallocate (run%around%of_job)
        allocate (run%around%of_job(2))
        run%around%of_job(1)%name = 'IS_SET'
        run%around%of_job(1)%value = 'sha256:0123456789abcdef'
        run%around%of_job(1)%other_rank = 2
        run%around%of_job(2)%name = 'IS_NOT'
        run%around%of_job(2)%other_value = ' blank '
        run%seen(1, 1)%collective_metadata = 'yes'
        run%seen(1, 1)%collective = 'independent, for it was asked to be'
        run%seen(1, 1)%collective_read = 'collective'
        run%seen(1, 1)%layout = plain_file()
        run%seen(1, 1)%page_cache_fraction = 0
        run%seen(2, 1)%layout = composite_file()
        run%seen(2, 1)%page_cache_fraction = 0.5_real64
        run%place%targets(2)%is_echoed = .true.
        run%place%targets(2)%echoed = component(stripe_count=1)
        run%place%targets(2)%error = made_failure(exit_io)
        do number = 1, 7, 2
            run%records(number, 1) = made_repetition(1, number > 4)
        end do
        run%records(2, 1) = made_repetition(1, .false.)
        run%records(3, 1)%witness%is_direct = .false.
        run%records(3, 1)%witness%page_cache_fraction = 0.5_real64
        run%records(3, 1)%witness%unsynced_fraction = 0.25_real64
        run%records(1, 2) = made_repetition(2, .false.)
        run%records(:, 1)%is_warmup = .true.
    end subroutine targets_on_lustre

    !> Another run's subfiles, read on a filesystem of which little is known.
    subroutine subfiles_that_are_there()
        call new_run('--backend hdf5 --operation read-existing', 2)
        run%choice%files = 'shared'
        run%choice%warmup = 0
        run%choice%repeats = 1
        run%choice%settings%access%subfiles = 2
        run%kept%run_id = 'yesterday'
        run%kept%started = noon
        run%kept%writers = 3
        run%kept%nodes%hosts = [character(len(run%kept%nodes%hosts)) :: 'a', 'b', 'a']
        run%seen(1, 1)%subfiles = 2
        run%seen(1, 1)%subfile_writers = 1
        run%seen(1, 1)%subfile_stripe = 33554432
        run%seen(1, 1)%page_cache_fraction = not_known
        run%records(1, 1) = made_repetition(1, .true.)
        run%records(1, 1)%witness%is_direct = .false.
        run%records(1, 1)%witness%page_cache_fraction = not_known
        run%completed = 1
    end subroutine subfiles_that_are_there

    subroutine names_alone()
        type(timing) :: none
        integer :: i

        call new_run('--operation metadata --items 7 --pool fast --stripe-count -1 --warmup 0 ' &
            //'--repeats 1 --time-limit 60', 3)
        run%place%mounted%type = 'ext4'
        run%place%filesystem = 'ext4'
        run%completed = 1
        run%records(1, 1) = made_repetition(1, .false.)
        run%records(1, 1)%times = none
        do i = 1, size(name_phases)
            run%records(1, 1)%times%of_phase(name_phases(i)) = made_time(i)
            if (name_phases(i) == phase_sync) cycle
            run%records(1, 1)%times%of_phase(name_phases(i))%operations = 21
        end do
        run%records(1, 1)%witness = testimony(names=42)
    end subroutine names_alone

    !> A failed run of one array and a layout of words.
    subroutine failed_run()
        call new_run('--global-size 8 --setstripe -C2', 2)
        run%error = made_failure(exit_io)
        run%completed = 0
    end subroutine failed_run

    !> Options of a line as of a command line, and a place and ranks for it.
    subroutine new_run(line, writers)
        character(*), intent(in) :: line
        integer, intent(in) :: writers

        type(run_result) :: none
        character(:), allocatable :: error
        integer :: i, j

        run = none
        call parse_options(words(line), run%choice, error)
        call expect(error == '', line//': '//error)
        if (run%choice%run_id == '') run%choice%run_id = 'random-one'
        call plan_array(run%choice, int(writers, int64), error)
        call expect(error == '', line//': '//error)
        run%operation => operation_of(run%choice%words(1))
        run%plan%ranks = writers
        run%plan%files = 1
        if (run%choice%files == 'process') run%plan%files = writers
        run%plan%other_node_byte_fraction = 0.5_real64
        run%plan%write_share%block = new_decomposition(run%choice%global_size, run%choice%grid, &
            0_int64, run%choice%halo)
        run%bytes = 4096
        run%started = noon
        run%place%path = '/made/up'
        run%place%filesystem = 'unknown'
        run%place%magic = '0xabc'
        run%place%mounted = mounted_filesystem(type='', point='/made up', source='', options='rw', &
            uuid='', fsid='', host='node', bytes=2_int64**41, free_bytes=2_int64**40)
        run%place%identity = 'unknown at /made up on node'
        allocate (run%place%targets(max(1, size(run%choice%targets))))
        do i = 1, size(run%place%targets)
            run%place%targets(i)%name = ''
            if (size(run%choice%targets) > 0) then
                run%place%targets(i)%name = trim(run%choice%targets(i))
            end if
        end do
        run%place%targets%request = layout_requests(run%choice)
        run%nodes%hosts = [character(len(run%nodes%hosts)) :: 'a', 'b']
        run%nodes%runs = [rank_run(0, 2, (writers + 1)/2), rank_run(1, 2, writers/2)]
        run%nodes%node = [1, 2]
        allocate (run%around%variables(0), run%around%contents(0), run%around%libraries(0), &
            run%around%of_job(0))
        allocate (run%facts_of_node(facts, 2), source=not_known)
        allocate (run%seen(size(run%choice%backends), size(run%place%targets)))
        do i = 1, size(run%seen, 1)
            do j = 1, size(run%seen, 2)
                allocate (run%seen(i, j)%hints(0))
                run%seen(i, j)%collective_metadata = ''
                run%seen(i, j)%collective = ''
                run%seen(i, j)%collective_read = ''
            end do
        end do
        allocate (run%records(size(run%choice%operations)*size(run%seen), 2))
        run%completed = 2
        run%field_mib = 0.5_real64
        run%peak_rss_mib = 64
        run%peak_rank = 1
    end subroutine new_run

    function made_failure(status) result(error)
        integer, intent(in) :: status
        type(failure) :: error

        error%status = status
        error%rank = 1
        error%host = 'b'
        error%call = 'pwrite'
        error%path = ''
        error%message = 'No space left on device'
    end function made_failure

    !> A write or read of all files that has parts, and windows of two instances.
    function made_repetition(round, reads) result(record)
        integer, intent(in) :: round
        logical, intent(in) :: reads
        type(repetition) :: record

        integer :: i

        record%round = round
        record%position = 1
        record%started = noon
        record%file_bytes = 5000
        record%times%mib = 3
        record%times%clocks_agree = .false.
        record%times%clock_step = 0.001_real64
        record%times%of_nodes(1) = spread_of([1.0_real64, 2.0_real64])
        record%times%instance_mib = [1.0_real64, 2.0_real64]
        record%times%instance_window = [0.5_real64, 0.25_real64]
        if (reads) then
            do i = 1, size(read_phases)
                record%times%of_phase(read_phases(i)) = made_time(i)
            end do
            call make_span(record%times%of_phase(phase_total))
            record%times%of_nodes(3) = spread_of([4.0_real64, 0.5_real64])
        else
            do i = 1, size(write_phases)
                record%times%of_phase(write_phases(i)) = made_time(i)
            end do
            call make_span(record%times%of_phase(phase_total))
            call make_span(record%times%of_phase(phase_stable))
            record%times%of_nodes(2) = spread_of([(real(i, real64), i=1, 65)])
            record%times%of_nodes(2)%least = 2      ! there are two hosts
            record%times%of_nodes(2)%most = 1
            record%times%of_nodes(4) = spread_of([-1.0_real64, 0.25_real64])
            record%times%of_part(part_gather) = made_time(9)
            record%times%of_part(part_pack) = made_time(10)
            record%witness%unsynced_fraction = 0
        end if
        record%witness%is_through_library = reads
        record%witness%is_direct = .true.
        record%witness%bytes = 4096
        record%witness%page_cache_fraction = 0
        record%witness%other_node_byte_fraction = 0.5_real64
    end function made_repetition

    !> Seconds that tell which phase they are of.
    pure type(phase_time) function made_time(number) result(time)
        integer, intent(in) :: number

        time%occurs = .true.
        time%min = number
        time%mean = number + 0.25_real64
        time%max = number + 0.5_real64
        time%slowest_rank = 1
        time%window = number + 0.625_real64
        time%file_window = number + 0.5625_real64
    end function made_time

    !> Adds what is known of a span alone.
    pure subroutine make_span(time)
        type(phase_time), intent(inout) :: time

        time%by_ranks = time%window - 0.5_real64
        time%by_rank_0 = time%window
        time%between = 0.125_real64
        time%overlap = 0.0625_real64
    end subroutine make_span

    function plain_file() result(layout)
        type(file_layout) :: layout

        layout%is_known = .true.
        layout%holder = component(pattern='raid0', stripe_count=1, stripe_size=1048576, &
            pool='fast', osts=[3_int64])
        call add_component(layout, layout%holder)
        layout%said = ''
    end function plain_file

    !> A file whose end holds no data yet.
    function composite_file() result(layout)
        type(file_layout) :: layout

        layout%is_known = .true.
        layout%holder = component(end_byte=1048576, pattern='raid0', stripe_count=2, &
            stripe_size=65536, osts=[3_int64, 4_int64])
        call add_component(layout, layout%holder)
        call add_component(layout, component(first_byte=1048576, pattern='raid0', stripe_count=-1, &
            osts=[integer(int64) ::], is_instantiated=.false.))
        layout%said = 'lcm_layout_gen: 2'
    end function composite_file

    !> The status of the failed run, if it had ended with another exit code.
    function status_text(status) result(text)
        integer, intent(in) :: status
        character(:), allocatable :: text

        character(*), parameter :: key = '"status": '

        run%error%status = status
        text = result_json(run)
        text = text(index(text, key) + len(key):)
        text = text(:index(text, ',') - 1)
    end function status_text

    !> Writes a run's texts to files here, and compares them with the golden ones.
    subroutine compare(name)
        character(*), intent(in) :: name

        call compare_text(name//'.json', result_json(run))
        if (has_cases(run)) then
            call compare_text(name//'.txt', plan_text(run)//new_line('a')//table_text(run))
        else
            call compare_text(name//'.txt', plan_text(run))
        end if
    end subroutine compare

    !> Compares a text with a golden file, and shows the lines that differ.
    subroutine compare_text(file, text)
        character(*), intent(in) :: file, text

        character(1), parameter :: lf = new_line('a')
        character(:), allocatable :: rest
        integer :: status, unit

        rest = text
        open (newunit=unit, file=file, action='write', status='replace', access='stream')
        do while (rest /= '')
            write (unit) as_everywhere(rest(:index(rest, lf) - 1))//lf
            rest = rest(index(rest, lf) + 1:)
        end do
        close (unit)
        call execute_command_line('diff -u "'//folder//'/'//file//'" '//file, exitstat=status)
        is_alike = is_alike .and. status == 0
    end subroutine compare_text

    !> A line, with "..." for a value that is another on every machine.
    pure function as_everywhere(line) result(text)
        character(*), intent(in) :: line
        character(:), allocatable :: text

        integer :: colon, i

        text = line
        if (index(line, 'benchio ') == 1) text = 'benchio ...'//line(index(line, ', run '):)
        do i = 1, size(varying)
            if (index(line, '    "'//trim(varying(i))//'": ') /= 1) cycle
            colon = index(line, ': ')
            text = line(:colon + 1)//'"..."'//repeat(',', merge(1, 0, line(len(line):) == ','))
        end do
    end function as_everywhere

end program test_result_json
