!> The result of a run as benchio.result/1, a JSON text.
module benchio_result_json
    use, intrinsic :: iso_fortran_env, only: compiler_options, compiler_version, int64, real64
    use benchio_failure, only: exit_internal, exit_io, exit_time_limit, exit_verification, failure
    use benchio_json_writer, only: json_writer
    use benchio_measurement, only: phase_define, phase_gather, phase_names, phase_pack, &
        phase_read, phase_sync, phase_write, phases, rate_names, rate_stable, rates, repetition
    use benchio_posix, only: environment_entry
    use benchio_registry, only: library_version
    use benchio_result, only: cache_suspect, contiguous_bytes, has_cases, run_result, summary, &
        verified
    use benchio_settings, only: hint
    use benchio_statistics, only: statistics
    use benchio_striping, only: striping, unset
    use benchio_team, only: case_index
    use benchio_version, only: version
    implicit none (type, external)
    private

    public :: result_json

    !> Variables that change what parallel I/O does. Not all of OMPI_MCA_*: the launcher puts its
    !> own there, different in every run.
    character(*), parameter :: telling(*) = [character(21) :: 'OMPI_MCA_io', 'OMPI_MCA_fs', &
        'OMPI_MCA_fcoll', 'OMPI_MCA_fbtl', 'OMPI_MCA_sharedfp', 'OMPI_MCA_common_ompio', &
        'OMPI_MCA_btl', 'OMPI_MCA_pml', 'ROMIO_', &
        'MPICH_', 'I_MPI_', 'HDF5_', 'NETCDF_', 'LD_PRELOAD', 'DARSHAN_']

contains

    function result_json(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        type(json_writer) :: json
        integer :: i, j

        call json%open_object()
        call json%add('benchio.result/1', 'schema')
        call json%add(status_name(run), 'status')
        call add_error(json, run%error)
        call json%add(run%started, 'started')
        call json%open_object('benchio')
        call json%add(version, 'version')
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
            do j = 1, size(run%group%choice%operations)
                do i = 1, size(run%group%choice%backends)
                    call add_case(json, run, trim(run%group%choice%operations(j)), i)
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
            name = 'unverified'
            if (verified(run)) name = 'ok'
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
        call json%add(error%call, 'call')
        call json%add(error%path, 'path')
        call json%add(error%message, 'message')
        call json%close_object()
    end subroutine add_error

    subroutine add_libraries(json)
        type(json_writer), intent(inout) :: json

        character(6), parameter :: names(2) = [character(6) :: 'hdf5', 'netcdf']
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

        associate (choice => run%group%choice, hosts => run%host_of_rank, &
            place => run%group%place, block => run%group%own%block)
            call json%open_object('run')
            call json%add(size(hosts), 'writers')
            call json%open_array('hosts')
            do i = 1, size(hosts)
                if (all(hosts(:i - 1) /= hosts(i))) call json%add(trim(hosts(i)))
            end do
            call json%close_array()
            call json%add(place%path, 'directory')
            call json%open_object('filesystem')
            call json%add(place%filesystem, 'type')
            call json%add(place%magic, 'magic')
            call json%add(place%free_bytes, 'free_bytes')
            call json%close_object()
            call json%open_array('operations')
            do i = 1, size(choice%operations)
                call json%add(trim(choice%operations(i)))
            end do
            call json%close_array()
            call json%add(choice%files, 'files')
            call json%add(maxval(run%group%file) + 1, 'file_count')
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
            call json%add(choice%seed, 'seed')
            call json%add(choice%repeats, 'repeats')
            call json%add(choice%warmup, 'warmup')
            call json%add(choice%sync, 'sync')
            call json%add(choice%verify, 'verify')
            call json%add(choice%phase_barrier, 'phase_barrier')
            call json%add(choice%phase_limit, 'phase_limit')
            call json%add(choice%time_limit, 'time_limit')
            call json%add(choice%settings%alignment, 'alignment')
            call json%add(choice%settings%chunk, 'chunk')
            call json%add(choice%settings%collective_metadata, 'collective_metadata')
            call json%add(trim(merge('latest  ', 'earliest', choice%settings%latest_format)), &
                'file_format')
            call json%close_object()
        end associate
    end subroutine add_run

    subroutine add_case(json, run, operation, backend)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        character(*), intent(in) :: operation
        integer, intent(in) :: backend

        integer :: i, number, round

        number = case_index(run%group%choice, operation, backend)
        call json%open_object()
        call json%add(operation, 'operation')
        call json%add(trim(run%group%choice%backends(backend)), 'backend')
        call add_settings(json, run, backend)
        if (operation == 'read') then
            call add_cache(json, run, backend)
        else
            call json%null('cache')
        end if
        call json%open_array('repetitions')
        do round = 1, run%completed
            call add_repetition(json, run, operation, run%records(number, round))
        end do
        call json%close_array()
        if (verified(run)) then
            call json%open_object('summary')
            do i = 1, rates
                if (operation == 'read' .and. i == rate_stable) cycle
                call add_statistics(json, trim(rate_names(i)), summary(run, number, i))
            end do
            call json%close_object()
        else
            call json%null('summary')
        end if
        call json%close_object()
    end subroutine add_case

    !> Asked for, repeated by the library, and seen to be so.
    subroutine add_settings(json, run, backend)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        integer, intent(in) :: backend

        associate (choice => run%group%choice, seen => run%group%seen(backend))
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
            if (seen%collective == '') then
                call json%null('observed')
            else
                call json%add(seen%collective, 'observed')
            end if
            call json%close_object()

            call json%open_object('striping')
            call add_stripes(json, choice%stripes, choice%stripes%is_set(), 'requested')
            call json%null('echoed')
            call add_stripes(json, seen%stripes, seen%striped, 'observed')
            call json%close_object()
        end associate
    end subroutine add_settings

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

    subroutine add_stripes(json, stripes, known, key)
        type(json_writer), intent(inout) :: json
        type(striping), intent(in) :: stripes
        logical, intent(in) :: known
        character(*), intent(in) :: key

        if (.not. known) then
            call json%null(key)
            return
        end if
        call json%open_object(key)
        call add_if_set(stripes%count, 'count')
        call add_if_set(stripes%size, 'size')
        call add_if_set(stripes%offset, 'offset')
        call json%close_object()

    contains

        subroutine add_if_set(number, name)
            integer(int64), intent(in) :: number
            character(*), intent(in) :: name

            if (number == unset) then
                call json%null(name)
            else
                call json%add(number, name)
            end if
        end subroutine add_if_set

    end subroutine add_stripes

    subroutine add_cache(json, run, backend)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        integer, intent(in) :: backend

        associate (group => run%group, cache => run%group%cache(backend))
            call json%open_object('cache')
            call json%add(group%shift, 'shift')
            call json%add(cache%other_node, 'other_node_fraction')
            call json%add(cache%resident, 'resident_fraction')
            call json%add(cache_suspect(run, backend), 'suspect')
            call json%close_object()
        end associate
    end subroutine add_cache

    subroutine add_repetition(json, run, operation, record)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        character(*), intent(in) :: operation
        type(repetition), intent(in) :: record

        integer :: i

        call json%open_object()
        call json%add(record%round, 'round')
        call json%add(record%position, 'position')
        call json%add(record%warmup, 'warmup')
        call json%open_object('phases')
        do i = 1, phases
            if (.not. phase_occurs(run, operation, i, record%times(i)%max)) cycle
            call json%open_object(trim(phase_names(i)))
            call json%add(record%times(i)%min, 'min')
            call json%add(record%times(i)%mean, 'mean')
            call json%add(record%times(i)%max, 'max')
            call json%add(record%times(i)%slowest_rank, 'slowest_rank')
            call json%add(trim(run%host_of_rank(record%times(i)%slowest_rank + 1)), 'slowest_host')
            call json%close_object()
        end do
        call json%close_object()
        if (verified(run)) then
            call json%open_object('rates')
            do i = 1, rates
                if (operation == 'read' .and. i == rate_stable) cycle
                call json%add(record%rates(i), trim(rate_names(i)))
            end do
            call json%close_object()
        else
            call json%null('rates')
        end if
        if (verified(run) .and. run%group%choice%instances > 1) then
            call json%open_array('instances')
            do i = 1, run%group%choice%instances
                call json%add(record%of_instance(i))
            end do
            call json%close_array()
        else
            call json%null('instances')
        end if
        call json%add(trim(merge('passed ', 'skipped', record%verified)), 'verification')
        call json%close_object()
    end subroutine add_repetition

    !> Whether a phase belongs to an operation; packing and gathering only where they took time.
    pure logical function phase_occurs(run, operation, phase, seconds)
        type(run_result), intent(in) :: run
        character(*), intent(in) :: operation
        integer, intent(in) :: phase
        real(real64), intent(in) :: seconds

        select case (phase)
        case (phase_define, phase_write, phase_sync)
            phase_occurs = operation == 'write'
        case (phase_read)
            phase_occurs = operation == 'read'
        case (phase_gather)
            phase_occurs = run%group%choice%files == 'gather'
        case (phase_pack)
            phase_occurs = seconds > 0
        case default
            phase_occurs = .true.
        end select
    end function phase_occurs

    subroutine add_statistics(json, name, of)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: name
        type(statistics), intent(in) :: of

        call json%open_object(name)
        call json%add(of%count, 'count')
        call json%add(of%min, 'min')
        call json%add(of%q1, 'q1')
        call json%add(of%median, 'median')
        call json%add(of%q3, 'q3')
        call json%add(of%max, 'max')
        call json%add(of%mean, 'mean')
        call json%add(of%cov, 'cov')
        call json%close_object()
    end subroutine add_statistics

end module benchio_result_json
