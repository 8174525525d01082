!> The result of a run, and its form as benchio.result/1 (JSON).
!>
!> The law is kept here: a rate leaves benchio only from a run in which nothing failed and the
!> data were read back.
module benchio_result
    use, intrinsic :: iso_fortran_env, only: compiler_options, compiler_version, int64, real64
    use mpi_f08, only: MPI_Comm, MPI_Comm_rank, MPI_Comm_size, MPI_Gather, MPI_REAL8
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: exit_internal, exit_io, exit_time_limit, exit_verification, failure
    use benchio_json_writer, only: json_writer
    use benchio_measurement, only: phase_names, phases, rate_names, rates, repetition
    use benchio_options, only: options
    use benchio_posix, only: environment_entry, peak_rss
    use benchio_registry, only: library_version
    use benchio_statistics, only: statistics, summarise
    use benchio_target, only: target_directory
    use benchio_version, only: version
    implicit none (type, external)
    private

    public :: gather_memory, result_json, summary, verified

    real(real64), parameter :: mib = 2.0_real64**20

    !> Of one run, complete on rank 0.
    type, public :: run_result
        type(options) :: choice
        type(decomposition) :: block
        type(target_directory) :: place
        character(:), allocatable :: started
        character(256), allocatable :: host_of_rank(:)
        type(repetition), allocatable :: records(:, :)      !! (backend, round)
        real(real64) :: field_mib = 0, peak_rss_mib = 0     !! of the rank that has most
        integer :: peak_rank = 0
        type(failure) :: error
    end type run_result

    !> Variables that change what parallel I/O does. Not all of OMPI_MCA_*: the launcher puts its
    !> own there, different in every run.
    character(*), parameter :: telling(*) = [character(21) :: 'OMPI_MCA_io', 'OMPI_MCA_fs', &
        'OMPI_MCA_fcoll', 'OMPI_MCA_fbtl', 'OMPI_MCA_sharedfp', 'OMPI_MCA_common_ompio', &
        'OMPI_MCA_btl', 'OMPI_MCA_pml', 'ROMIO_', &
        'MPICH_', 'I_MPI_', 'HDF5_', 'NETCDF_', 'LD_PRELOAD', 'DARSHAN_']

contains

    !> Collective: the memory high-water mark, after the last round.
    subroutine gather_memory(run, comm)
        type(run_result), intent(inout) :: run
        type(MPI_Comm), intent(in) :: comm

        real(real64), allocatable :: of_rank(:, :)
        real(real64) :: mine(2)
        integer :: rank, writers

        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_size(comm, writers)
        allocate (of_rank(2, merge(writers, 0, rank == 0)))
        mine = [real(run%block%field_bytes(), real64), real(peak_rss(), real64)]/mib
        call MPI_Gather(mine, 2, MPI_REAL8, of_rank, 2, MPI_REAL8, 0, comm)
        if (rank /= 0) return
        run%field_mib = maxval(of_rank(1, :))
        run%peak_rss_mib = maxval(of_rank(2, :))
        run%peak_rank = maxloc(of_rank(2, :), dim=1) - 1
    end subroutine gather_memory

    function result_json(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        type(json_writer) :: json
        integer :: i

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
        if (.not. run%error%failed()) then
            do i = 1, size(run%choice%backends)
                call add_case(json, run, i)
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
            name = trim(merge('ok        ', 'unverified', verified(run)))
        end select
    end function status_name

    !> Whether the run's figures are worth the name.
    pure logical function verified(run)
        type(run_result), intent(in) :: run

        integer :: last

        last = size(run%records, 2)
        select case (run%choice%verify)
        case ('all')
            verified = all(run%records%verified)
        case ('last')
            verified = all(run%records(:, last)%verified)
        case default
            verified = .false.
        end select
    end function verified

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

        associate (choice => run%choice, hosts => run%host_of_rank)
            call json%open_object('run')
            call json%add(size(hosts), 'writers')
            call json%open_array('hosts')
            do i = 1, size(hosts)
                if (all(hosts(:i - 1) /= hosts(i))) call json%add(trim(hosts(i)))
            end do
            call json%close_array()
            call json%add(run%place%path, 'directory')
            call json%open_object('filesystem')
            call json%add(run%place%filesystem, 'type')
            call json%add(run%place%magic, 'magic')
            call json%add(run%place%free_bytes, 'free_bytes')
            call json%close_object()
            call json%add('write', 'operation')
            call json%add('shared', 'files')
            call json%add(choice%global_size, 'global_size')
            if (all(choice%local_size > 0)) then
                call json%add(choice%local_size, 'local_size')
            else
                call json%null('local_size')
            end if
            call json%add(choice%grid, 'grid')
            call json%add(choice%halo, 'halo')
            call json%add(run%block%global_bytes(), 'bytes')
            call json%add(choice%seed, 'seed')
            call json%add(choice%repeats, 'repeats')
            call json%add(choice%warmup, 'warmup')
            call json%add(choice%sync, 'sync')
            call json%add(choice%verify, 'verify')
            call json%close_object()
        end associate
    end subroutine add_run

    subroutine add_case(json, run, backend)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        integer, intent(in) :: backend

        integer :: i, round

        call json%open_object()
        call json%add(trim(run%choice%backends(backend)), 'backend')
        call json%open_array('repetitions')
        do round = 1, size(run%records, 2)
            call add_repetition(json, run, run%records(backend, round))
        end do
        call json%close_array()
        if (verified(run)) then
            call json%open_object('summary')
            do i = 1, rates
                call add_statistics(json, trim(rate_names(i)), summary(run, backend, i))
            end do
            call json%close_object()
        else
            call json%null('summary')
        end if
        call json%close_object()
    end subroutine add_case

    subroutine add_repetition(json, run, record)
        type(json_writer), intent(inout) :: json
        type(run_result), intent(in) :: run
        type(repetition), intent(in) :: record

        integer :: i

        call json%open_object()
        call json%add(record%round, 'round')
        call json%add(record%position, 'position')
        call json%add(record%warmup, 'warmup')
        call json%open_object('phases')
        do i = 1, phases
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
                call json%add(record%rates(i), trim(rate_names(i)))
            end do
            call json%close_object()
        else
            call json%null('rates')
        end if
        call json%add(trim(merge('passed ', 'skipped', record%verified)), 'verification')
        call json%close_object()
    end subroutine add_repetition

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

    !> Of one rate of one backend over the measured rounds.
    pure function summary(run, backend, rate) result(of)
        type(run_result), intent(in) :: run
        integer, intent(in) :: backend, rate
        type(statistics) :: of

        real(real64) :: values(run%choice%repeats)
        integer :: i

        do i = 1, size(values)
            values(i) = run%records(backend, run%choice%warmup + i)%rates(rate)
        end do
        of = summarise(values)
    end function summary

end module benchio_result
