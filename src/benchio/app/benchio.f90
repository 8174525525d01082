!> benchio: writes a 3D block-distributed array through MPI-IO, HDF5 and NetCDF, reads it back,
!> and reports a bandwidth only for what was verified.
program benchio
    use, intrinsic :: iso_fortran_env, only: error_unit, int64, output_unit
    use mpi_f08, only: MPI_Comm, MPI_Comm_dup, MPI_Comm_rank, MPI_Comm_size, MPI_COMM_WORLD, &
        MPI_CHARACTER, MPI_Finalize, MPI_Gather, MPI_Get_processor_name, MPI_Init, &
        MPI_MAX_PROCESSOR_NAME
    use benchio_decomposition, only: new_decomposition
    use benchio_failure, only: agree, exit_io, exit_not_built_in, exit_ok, exit_usage, failure
    use benchio_options, only: help_text, parse_command_line, plan_array
    use benchio_posix, only: exit_process, probe_file, remove_file, utc_now, write_file
    use benchio_registry, only: backend_item, backend_names, built_in, new_backend
    use benchio_report, only: plan_text, table_text, version_text
    use benchio_result, only: gather_memory, result_json, run_result
    use benchio_runner, only: run_rounds
    use benchio_target, only: check_room, inspect_target
    implicit none (type, external)

    type(run_result) :: run
    type(backend_item), allocatable :: methods(:)
    character(4096), allocatable :: paths(:)
    character(:), allocatable :: message
    type(MPI_Comm) :: comm
    integer :: rank, writers

    call MPI_Init()
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    call MPI_Comm_rank(comm, rank)
    call MPI_Comm_size(comm, writers)

    call parse_command_line(run%choice, message)
    if (message /= '') call leave(exit_usage, 'benchio: error: '//message)
    if (run%choice%help) call leave(exit_ok, help_text())
    if (run%choice%version) call leave(exit_ok, version_text())
    call plan_array(run%choice, int(writers, int64), message)
    if (message /= '') call leave(exit_usage, 'benchio: error: '//message)
    call choose_backends()

    run%started = utc_now()
    run%block = new_decomposition(run%choice%global_size, run%choice%grid, int(rank, int64), &
        run%choice%halo)
    call gather_hosts()
    if (run%choice%dry_run) run%choice%json = ''
    if (run%choice%json /= '') call prepare_result_file()
    call inspect_target(run%choice%directory, run%choice%filesystems, comm, run%place, run%error)
    if (.not. run%error%failed()) call name_files()
    if (run%choice%dry_run) then
        if (rank == 0) write (output_unit, '(a)', advance='no') plan_text(run)
    else if (.not. run%error%failed()) then
        call run_rounds(run%choice, methods, paths, run%block, comm, run%records, run%error)
    end if
    call gather_memory(run, comm)
    call report()
    call leave(run%error%status, '')

contains

    !> One backend of each name; exit 2 for an unknown name, 6 for one not built in.
    subroutine choose_backends()
        character(:), allocatable :: name
        integer :: i

        allocate (methods(size(run%choice%backends)))
        do i = 1, size(methods)
            name = trim(run%choice%backends(i))
            if (all(backend_names /= name)) then
                call leave(exit_usage, 'benchio: error: --backend does not know "'//name// &
                    '"; there are mpiio, hdf5 and netcdf')
            else if (.not. built_in(name)) then
                call leave(exit_not_built_in, 'benchio: error: backend '//name// &
                    ' is not built in: it was configured without that library')
            end if
            methods(i) = new_backend(name)
        end do
    end subroutine choose_backends

    subroutine gather_hosts()
        character(MPI_MAX_PROCESSOR_NAME) :: name
        character(len(run%host_of_rank)) :: host
        integer :: length

        call MPI_Get_processor_name(name, length)
        host = name(:length)
        allocate (run%host_of_rank(merge(writers, 0, rank == 0)))
        call MPI_Gather(host, len(host), MPI_CHARACTER, run%host_of_rank, len(host), &
            MPI_CHARACTER, 0, comm)
    end subroutine gather_hosts

    !> Yesterday's result must not be taken for this run's; and a run whose result cannot be
    !> written need not start.
    subroutine prepare_result_file()
        character(:), allocatable :: text

        if (rank == 0) then
            call probe_file(run%choice%json, text)
            if (text /= '') call run%error%set(exit_io, 'open', run%choice%json, text)
            if (.not. run%error%failed()) call remove_file(run%choice%json, text)
        end if
        call agree(run%error, comm)
        if (run%error%failed()) call leave(run%error%status, 'benchio: error: '//run%error%line())
    end subroutine prepare_result_file

    !> The file of each backend, none of which may exist, and the room for them.
    subroutine name_files()
        integer :: i, at_once

        allocate (paths(size(methods)))
        do i = 1, size(methods)
            paths(i) = run%place%path//'/benchio.'//methods(i)%it%name//'.'// &
                methods(i)%it%extension
        end do
        at_once = merge(size(methods), 1, run%choice%keep)
        call check_room(run%place, paths, at_once*run%block%global_bytes(), comm, run%error)
    end subroutine name_files

    !> On rank 0: the result file, then the table or the error.
    subroutine report()
        character(:), allocatable :: text

        if (rank == 0) then
            if (run%choice%json /= '') then
                call write_file(run%choice%json, result_json(run), text)
                if (text /= '') call run%error%set(exit_io, 'write', run%choice%json, text)
            end if
            if (run%error%failed()) then
                write (error_unit, '(a)') 'benchio: error: '//run%error%line()
            else if (.not. run%choice%dry_run) then
                write (output_unit, '(a)', advance='no') table_text(run)
            end if
        end if
        call agree(run%error, comm)
    end subroutine report

    !> Ends all ranks alike; rank 0 says the text, on standard error if something failed.
    subroutine leave(status, text)
        integer, intent(in) :: status
        character(*), intent(in) :: text

        if (rank == 0 .and. text /= '') then
            if (status == exit_ok) then
                write (output_unit, '(a)', advance='no') text
            else
                write (error_unit, '(a)') text
            end if
        end if
        call MPI_Finalize()
        call exit_process(status)
    end subroutine leave

end program benchio
