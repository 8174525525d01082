!> The result of a run as benchio.result/1, a JSON text.
module benchio_result_json
    use, intrinsic :: iso_fortran_env, only: compiler_options, compiler_version
    use benchio_case_json, only: add_case
    use benchio_failure, only: exit_internal, exit_io, exit_time_limit, exit_verification, failure
    use benchio_json_writer, only: json_writer
    use benchio_posix, only: environment_entry
    use benchio_registry, only: library_version
    use benchio_result, only: contiguous_bytes, has_cases, run_result, verified
    use benchio_version, only: version
    implicit none (type, external)
    private

    public :: add_hosts, result_json

    !> Variables that change what parallel I/O does. Not all of OMPI_MCA_*: the launcher puts its
    !> own there, different in every run.
    character(*), parameter :: telling(*) = [character(21) :: 'OMPI_MCA_io', 'OMPI_MCA_fs', &
        'OMPI_MCA_fcoll', 'OMPI_MCA_fbtl', 'OMPI_MCA_sharedfp', 'OMPI_MCA_common_ompio', &
        'OMPI_MCA_btl', 'OMPI_MCA_pml', 'ROMIO_', &
        'MPICH_', 'I_MPI_', 'HDF5_', 'NETCDF_', 'PNETCDF_', 'LD_PRELOAD', 'DARSHAN_']

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

        associate (choice => run%group%choice, hosts => run%host_of_rank, &
            place => run%group%place, block => run%group%own%block)
            call json%open_object('run')
            call json%add(size(hosts), 'writers')
            call add_hosts(json, hosts)
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

end module benchio_result_json
