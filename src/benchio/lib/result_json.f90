!> The result of a run as benchio.result/3, a JSON text.
module benchio_result_json
    use, intrinsic :: iso_fortran_env, only: compiler_options, compiler_version, int64, real64
    use benchio_failure, only: exit_internal, exit_io, exit_time_limit, exit_verification, failure
    use benchio_file_layout, only: component, file_layout, layout_request, unset
    use benchio_json_writer, only: json_writer
    use benchio_node_state, only: fact_names, facts
    use benchio_phases, only: part_names, parts, phase_names, phase_time, phases, rate_names, rates
    use benchio_options, only: is_metadata
    use benchio_posix, only: environment_entry
    use benchio_registry, only: library_version
    use benchio_result, only: case_index, contiguous_bytes, has_cases, is_cache_suspect, &
        repetition, run_result
    use benchio_settings, only: hint
    use benchio_version, only: version
    use benchio_witness, only: testimony
    implicit none (type, external)
    private

    public :: add_hosts, result_json

    !> Variables that change what parallel I/O does. Not all of OMPI_MCA_*: the launcher puts its
    !> own there, different in every run.
    character(*), parameter :: telling(*) = [character(21) :: 'OMPI_MCA_io', 'OMPI_MCA_fs', &
        'OMPI_MCA_fcoll', 'OMPI_MCA_fbtl', 'OMPI_MCA_sharedfp', 'OMPI_MCA_common_ompio', &
        'OMPI_MCA_btl', 'OMPI_MCA_pml', 'ROMIO_', &
        'MPICH_', 'I_MPI_', 'HDF5_', 'H5FD_', 'NETCDF_', 'PNETCDF_', 'LD_PRELOAD', 'DARSHAN_']

contains

    function result_json(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        type(json_writer) :: json
        integer :: i, j, t

        call json%open_object()
        call json%add('benchio.result/3', 'schema')
        call json%add(status_name(run), 'status')
        call add_error(json, run%error)
        call json%add(run%started, 'started')
        call json%open_object('benchio')
        call json%add(version(), 'version')
        call json%add(compiler_version(), 'compiler')
        call json%add(compiler_options(), 'compiler_options')
        call json%close_object()
        call add_libraries(json)
        call add_environment(json)
        call add_run(json, run)
        call json%open_object('memory')
        call json%add(run%field_mib, 'field_mib')
        call json%add(run%peak_rss_mib, 'peak_rss_mib')
        call json%add(run%peak_rank, 'peak_rank')
        call json%close_object()
        call json%open_array('cases')
        if (has_cases(run)) then
            do j = 1, size(run%choice%operations)
                do i = 1, size(run%choice%backends)
                    do t = 1, size(run%place%targets)
                        call add_case(json, run, trim(run%choice%operations(j)), i, t)
                    end do
                end do
            end do
        end if
        call json%close_array()
        call json%close_object()
        text = json%text()
    end function result_json

    function status_name(run) result(name)
        type(run_result), intent(in) :: run
        character(:), allocatable :: name

        select case (run%error%status)
        case (exit_io)
            name = 'io_error'
        case (exit_verification)
            name = 'verification_error'
        case (exit_time_limit)
            name = 'time_limit'
        case (exit_internal)
            name = 'internal_error'
        case default
            name = 'ok'
        end select
    end function status_name

    subroutine add_error(json, error)
        type(json_writer), intent(inout) :: json
        type(failure), intent(in) :: error

        if (.not. error%failed()) then
            call json%null('error')
            return
        end if
        call json%open_object('error')
        call json%add(error%rank, 'rank')
        call json%add(error%host, 'host')
        call json%add(error%call, 'call')
        call json%add(error%path, 'path')
        call json%add(error%message, 'message')
        call json%close_object()
    end subroutine add_error

    subroutine add_libraries(json)
        type(json_writer), intent(inout) :: json

        character(7), parameter :: names(3) = [character(7) :: 'hdf5', 'netcdf', 'pnetcdf']
        character(:), allocatable :: text
        integer :: i

        call json%open_object('libraries')
        call json%add(library_version('mpiio'), 'mpi')
        do i = 1, size(names)
            text = library_version(trim(names(i)))
            if (text == '') then
                call json%null(trim(names(i)))
            else
                call json%add(text, trim(names(i)))
            end if
        end do
        call json%close_object()
    end subroutine add_libraries

    subroutine add_environment(json)
        type(json_writer), intent(inout) :: json

        character(:), allocatable :: entry
        integer :: i, j, equals

        call json%open_object('environment')
        i = 0
        do
            entry = environment_entry(i)
            if (entry == '') exit
            equals = index(entry, '=')
            do j = 1, size(telling)
                if (index(entry, trim(telling(j))) == 1) then
                    call json%add(entry(equals + 1:), entry(:equals - 1))
                    exit
                end if
            end do
            i = i + 1
        end do
        call json%close_object()
    end subroutine add_environment

    subroutine add_run(json, run)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run

        integer :: i

        associate (choice => run%choice, hosts => run%host_of_rank, place => run%place, &
            block => run%plan%own%block)
            call json%open_object('run')
            call json%add(choice%run_id, 'id')
            call json%add(size(hosts), 'writers')
            call add_hosts(json, hosts)
            call add_nodes(json, run)
            call json%add(place%path, 'directory')
            call json%open_object('filesystem')
            call json%add(place%filesystem, 'type')
            call json%add(place%magic, 'magic')
            call add_text(json, place%mounted%type, 'mount_type')
            call json%add(place%mounted%free_bytes, 'free_bytes')
            call add_number(json, merge(int(place%mdt_index, int64), unset, &
                place%mdt_index >= 0), 'mdt_index')
            call json%close_object()
            call json%open_array('operations')
            do i = 1, size(choice%operations)
                if (choice%reads_existing) then
                    call json%add('read-existing')
                else if (choice%keeps .and. choice%operations(i) == 'write') then
                    call json%add('write-keep')
                else
                    call json%add(trim(choice%operations(i)))
                end if
            end do
            call json%close_array()
            call add_kept(json, run)
            call json%add(choice%files, 'files')
            call json%add(run%plan%files, 'file_count')
            call json%add(choice%instances, 'instances')
            call json%add(block%global, 'file_size')
            if (all(choice%local_size > 0)) then
                call json%null('global_size')
                call json%add(choice%local_size, 'local_size')
            else
                call json%add(choice%global_size, 'global_size')
                call json%null('local_size')
            end if
            call json%add(block%grid, 'grid')
            call json%add(contiguous_bytes(block), 'contiguous_bytes')
            call json%add(choice%halo, 'halo')
            call json%add(run%bytes, 'bytes')
            if (is_metadata(choice)) call json%add(choice%items, 'items')
            call json%add(choice%repeats, 'repeats')
            call json%add(choice%warmup, 'warmup')
            call json%add(choice%settle, 'settle')
            call json%add(choice%phase_barrier, 'phase_barrier')
            call json%add(choice%phase_limit, 'phase_limit')
            call json%add(choice%time_limit, 'time_limit')
            call json%add(choice%settings%transfer_bytes, 'transfer')
            call json%add(choice%settings%flush, 'flush')
            call json%add(choice%settings%direct, 'direct')
            call json%add(choice%settings%alignment, 'alignment')
            call json%add(choice%settings%chunk, 'chunk')
            call json%add(choice%settings%access%text(), 'pattern')
            call json%add(trim(merge('latest  ', 'earliest', choice%settings%latest_format)), &
                'file_format')
            call json%close_object()
        end associate
    end subroutine add_run

    !> What is read, if another run has written it.
    subroutine add_kept(json, run)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run

        if (.not. run%choice%reads_existing) then
            call json%null('existing')
            return
        end if
        associate (kept => run%kept)
            call json%open_object('existing')
            call json%add(kept%run_id, 'id')
            call json%add(kept%started, 'started')
            call json%add(size(kept%file), 'writers')
            call add_hosts(json, kept%hosts)
            call json%close_object()
        end associate
    end subroutine add_kept

    !> What else each node did, as far as it said anything.
    subroutine add_nodes(json, run)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run

        integer :: i, rank

        call json%open_array('nodes')
        do rank = 1, size(run%node_of_rank, 2)
            if (all(run%node_of_rank(:, rank) < 0)) cycle
            call json%open_object()
            call json%add(trim(run%host_of_rank(rank)), 'host')
            do i = 1, facts
                if (run%node_of_rank(i, rank) < 0) then
                    call json%null(trim(fact_names(i)))
                else
                    call json%add(run%node_of_rank(i, rank), trim(fact_names(i)))
                end if
            end do
            call json%close_object()
        end do
        call json%close_array()
    end subroutine add_nodes

    !> Each host once. Ranks of one are mostly neighbours: a rank is compared with the host listed
    !> last first, and never with all ranks.
    subroutine add_hosts(json, hosts)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: hosts(:)        !! of each rank

        integer :: rank_of(size(hosts))             !! the first rank of each host listed
        integer :: i, listed, rank

        call json%open_array('hosts')
        listed = 0
        do rank = 1, size(hosts)
            do i = listed, 1, -1
                if (hosts(rank_of(i)) == hosts(rank)) exit
            end do
            if (i > 0) cycle
            listed = listed + 1
            rank_of(listed) = rank
            call json%add(trim(hosts(rank)))
        end do
        call json%close_array()
    end subroutine add_hosts

    !> The next element of the array of cases: one operation of one backend on one target.
    subroutine add_case(json, run, operation, backend, target)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        character(*), intent(in) :: operation
        integer, intent(in) :: backend, target

        integer :: number, round

        number = case_index(run%choice, operation, backend, target)
        call json%open_object()
        call json%add(operation, 'operation')
        call json%add(trim(run%choice%backends(backend)), 'backend')
        associate (where => run%place%targets(target))
            if (where%name == '') then
                call json%null('target')
            else
                call json%open_object('target')
                call json%add(where%name, 'name')
                call add_error(json, where%error)
                call json%close_object()
            end if
        end associate
        call add_settings(json, run, operation, backend, target)
        if (operation == 'read') then
            call json%open_object('cache')
            call json%add(run%plan%other_node_fraction, 'other_node_fraction')
            call add_known(json, run%seen(backend, target)%page_cache_fraction, &
                'page_cache_fraction')
            call json%add(is_cache_suspect(run, backend, target), 'suspect')
            call json%close_object()
        else
            call json%null('cache')
        end if
        call json%open_array('repetitions')
        do round = 1, run%completed
            if (run%records(number, round)%round == 0) cycle
            call add_repetition(json, run, run%records(number, round))
        end do
        call json%close_array()
        call json%close_object()
    end subroutine add_case

    !> Asked for, repeated by the library, and seen to be so.
    subroutine add_settings(json, run, operation, backend, target)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        character(*), intent(in) :: operation
        integer, intent(in) :: backend, target

        associate (choice => run%choice, seen => run%seen(backend, target), &
            where => run%place%targets(target))
            call json%open_object('hints')
            call add_hints(json, choice%settings%hints, 'requested')
            if (size(seen%hints) > 0) then
                call add_hints(json, seen%hints, 'echoed')
            else
                call json%null('echoed')
            end if
            call json%null('observed')
            call json%close_object()

            call json%open_object('collective')
            call json%add(choice%settings%collective, 'requested')
            call json%null('echoed')
            if (operation == 'read') then
                call add_text(json, seen%collective_read, 'observed')
            else
                call add_text(json, seen%collective, 'observed')
            end if
            call json%close_object()

            call json%open_object('collective_metadata')
            call json%add(choice%settings%collective_metadata, 'requested')
            call add_text(json, seen%collective_metadata, 'echoed')
            call json%null('observed')
            call json%close_object()

            call json%open_object('layout')
            call add_request(json, where%request)
            if (where%is_echoed) then
                call json%open_object('echoed')
                call add_stripes(json, where%echoed)
                call json%close_object()
            else
                call json%null('echoed')
            end if
            call add_layout(json, seen%layout)
            call json%close_object()
            call add_subfiles(json, run, backend, target)
        end associate
    end subroutine add_settings

    !> Subfiles of HDF5's, and ranks that wrote them for all; null of other files.
    subroutine add_subfiles(json, run, backend, target)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        integer, intent(in) :: backend, target

        associate (seen => run%seen(backend, target))
            if (seen%subfiles == 0) then
                call json%null('subfiles')
                return
            end if
            call json%open_object('subfiles')
            call json%add(run%choice%settings%access%subfiles, 'requested')
            call json%open_object('observed')
            call json%add(seen%subfiles, 'count')
            call json%add(seen%subfile_stripe, 'stripe_size')
            call json%add(seen%subfile_writers, 'writers')
            call json%close_object()
            call json%close_object()
        end associate
    end subroutine add_subfiles

    subroutine add_hints(json, hints, key)
        type(json_writer), intent(inout) :: json
        type(hint), intent(in) :: hints(:)
        character(*), intent(in) :: key

        integer :: i

        call json%open_object(key)
        do i = 1, size(hints)
            call json%add(hints(i)%value, hints(i)%key)
        end do
        call json%close_object()
    end subroutine add_hints

    !> What was asked for. A target is one stripe of a file; on CephFS its pool.
    subroutine add_request(json, request)
        type(json_writer), intent(inout) :: json
        type(layout_request), intent(in) :: request

        if (.not. request%is_set()) then
            call json%null('requested')
            return
        end if
        call json%open_object('requested')
        if (request%target /= '') then
            call json%add(1, 'stripe_count')
        else
            call add_number(json, request%stripe_count, 'stripe_count')
        end if
        call add_number(json, request%stripe_size, 'stripe_size')
        call add_text(json, trim(request%pool), 'pool')
        call add_text(json, trim(request%setstripe), 'setstripe')
        call json%close_object()
    end subroutine add_request

    !> The layout that was observed, with that of the component that holds the data first.
    subroutine add_layout(json, found)
        type(json_writer), intent(inout) :: json
        type(file_layout), intent(in) :: found

        integer :: i

        if (.not. found%is_known) then
            call json%null('observed')
            return
        end if
        call json%open_object('observed')
        call add_stripes(json, found%holder)
        call json%add(found%holder%osts, 'osts')
        call json%open_array('components')
        do i = 1, size(found%components)
            associate (one => found%components(i))
                call json%open_object()
                call json%add(one%first_byte, 'first_byte')
                call add_number(json, one%end_byte, 'end_byte')
                call json%add(trim(one%pattern), 'pattern')
                call add_stripes(json, one)
                call json%add(one%osts, 'osts')
                call json%add(one%is_instantiated, 'is_instantiated')
                call json%close_object()
            end associate
        end do
        call json%close_array()
        call add_text(json, found%said, 'said')
        call json%close_object()
    end subroutine add_layout

    subroutine add_stripes(json, stripes)
        type(json_writer), intent(inout) :: json
        type(component), intent(in) :: stripes

        call add_number(json, stripes%stripe_count, 'stripe_count')
        call add_number(json, stripes%stripe_size, 'stripe_size')
        call add_text(json, trim(stripes%pool), 'pool')
    end subroutine add_stripes

    !> A number; null if it is unset.
    subroutine add_number(json, number, key)
        type(json_writer), intent(inout) :: json
        integer(int64), intent(in) :: number
        character(*), intent(in) :: key

        if (number == unset) then
            call json%null(key)
        else
            call json%add(number, key)
        end if
    end subroutine add_number

    subroutine add_repetition(json, run, record)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        type(repetition), intent(in) :: record

        integer :: i

        call json%open_object()
        call json%add(record%round, 'round')
        call json%add(record%position, 'position')
        call json%add(record%is_warmup, 'warmup')
        call json%add(record%started, 'started')
        call json%open_object('phases')
        do i = 1, phases
            associate (phase => record%times%of_phase(i))
                if (.not. phase%occurs) cycle
                call open_times(json, run, phase, trim(phase_names(i)))
                call json%add(phase%window, 'window')
                call json%add(phase%file_window, 'file_window')
                if (phase%operations > 0) then
                    call json%add(phase%operations, 'operations')
                    call json%add(phase%operations/phase%window, 'rate')
                end if
                call json%close_object()
            end associate
        end do
        call json%close_object()
        call json%open_object('parts')
        do i = 1, parts
            if (.not. record%times%of_part(i)%occurs) cycle
            call open_times(json, run, record%times%of_part(i), trim(part_names(i)))
            call json%close_object()
        end do
        call json%close_object()
        call json%open_object('rates')
        do i = 1, rates
            if (record%times%has_rate(i)) call json%add(record%times%rate(i), trim(rate_names(i)))
        end do
        call json%close_object()
        if (run%choice%instances > 1) then
            call json%open_array('instances')
            do i = 1, run%choice%instances
                call json%add(record%times%instance_mib(i)/record%times%instance_window(i))
            end do
            call json%close_array()
        else
            call json%null('instances')
        end if
        call json%add(record%file_bytes, 'file_bytes')
        call add_witness(json, record%witness)
        call json%close_object()
    end subroutine add_repetition

    !> An object of seconds over ranks, to be closed by the caller.
    subroutine open_times(json, run, seconds, key)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        type(phase_time), intent(in) :: seconds
        character(*), intent(in) :: key

        call json%open_object(key)
        call json%add(seconds%min, 'min')
        call json%add(seconds%mean, 'mean')
        call json%add(seconds%max, 'max')
        call json%add(seconds%slowest_rank, 'slowest_rank')
        call json%add(trim(run%host_of_rank(seconds%slowest_rank + 1)), 'slowest_host')
    end subroutine open_times

    subroutine add_witness(json, witness)
        type(json_writer), intent(inout) :: json
        type(testimony), intent(in) :: witness

        call json%open_object('witness')
        call json%add(trim(merge('through the library', 'pread              ', &
            witness%is_through_library)), 'method')
        call json%add(witness%is_direct, 'direct')
        call json%add(witness%bytes, 'bytes')
        if (witness%names >= 0) call json%add(witness%names, 'names')
        call add_known(json, witness%page_cache_fraction, 'page_cache_fraction')
        call add_known(json, witness%unsynced_fraction, 'unsynced_fraction')
        call json%add(witness%other_node_fraction, 'other_node_fraction')
        call json%close_object()
    end subroutine add_witness

    !> A fraction; null if it is less than 0, not known.
    subroutine add_known(json, fraction, key)
        type(json_writer), intent(inout) :: json
        real(real64), intent(in) :: fraction
        character(*), intent(in) :: key

        if (fraction < 0) then
            call json%null(key)
        else
            call json%add(fraction, key)
        end if
    end subroutine add_known

    !> A text; null if it is empty.
    subroutine add_text(json, text, key)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: text, key

        if (text == '') then
            call json%null(key)
        else
            call json%add(text, key)
        end if
    end subroutine add_text

end module benchio_result_json
