!> benchio: writes 3D block-distributed arrays through MPI-IO, HDF5, NetCDF, PnetCDF, ADIOS2 and
!> POSIX, has a witness confirm every byte, and only then reports a bandwidth.
program benchio
    use, intrinsic :: iso_c_binding, only: c_int32_t
    use, intrinsic :: iso_fortran_env, only: error_unit, output_unit
    use mpi_f08, only: MPI_Comm, MPI_Comm_dup, MPI_Comm_rank, MPI_COMM_WORLD, MPI_Finalize, &
        MPI_Init_thread, MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE
    use benchio_command_line, only: help_text, parse_command_line
    use benchio_failure, only: agree, exit_io, exit_not_built_in, exit_ok, exit_usage
    use benchio_launcher, only: is_first_process, launcher_objection, library_objection, &
        look_at_place
    use benchio_posix, only: exit_at_once, exit_process, keep_freed_memory
    use benchio_report, only: version_text
    use benchio_result, only: run_result
    use benchio_run, only: perform, refuse
    use benchio_run_directory, only: filesystem_text
    use benchio_watchdog, only: catch_ends, has_ended, new_watchdog, start_watchdog, watchdog
    implicit none (type, external)

    type(run_result) :: run
    character(:), allocatable :: message, text
    type(MPI_Comm) :: comm
    type(watchdog) :: guard
    integer :: rank
    integer :: threads          ! what MPI says of them
    integer, parameter :: end_limit = 10    ! seconds that MPI and libraries may take to end

    ! Without MPI, which starts on no login node of a Cray.
    call look_at_place()
    call parse_command_line(run%choice, message)
    if (message == '' .and. (run%choice%help .or. run%choice%version &
        .or. run%choice%tells_filesystem)) then
        text = ''
        if (run%choice%help) then
            text = help_text()
        else if (run%choice%version) then
            text = version_text()
        else
            call filesystem_text(run%choice%directory, text, message)
        end if
        if (message /= '') then
            write (error_unit, '(4a)') 'benchio: error: ', run%choice%directory, ': ', message
            call exit_process(exit_io)
        end if
        if (is_first_process()) write (output_unit, '(a)', advance='no') text
        call exit_process(exit_ok)
    end if

    text = library_objection()
    if (text /= '') then
        if (is_first_process()) write (error_unit, '(2a)') 'benchio: error: ', text
        call exit_process(exit_usage)
    end if
    call catch_ends(0_c_int32_t)
    call keep_freed_memory()
    ! HDF5 makes subfiles in threads of its own, which call MPI. The watchdog's thread does not, and
    ! locks would cost MPI something.
    call MPI_Init_thread(merge(MPI_THREAD_MULTIPLE, MPI_THREAD_FUNNELED, &
        run%choice%settings%access%subfiles > 0), threads)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    call MPI_Comm_rank(comm, rank)
    if (message == '') message = launcher_objection(comm)
    if (message /= '') call run%error%set(exit_usage, '', '', message)
    if (threads < MPI_THREAD_FUNNELED) call run%error%set(exit_not_built_in, '', '', 'this MPI ' &
        //'knows MPI_THREAD_SINGLE alone, and the watchdog of benchio is a thread')
    call start_watchdog(comm, run%error)
    call agree(run%error, comm)
    if (run%error%failed()) then
        call refuse(run, rank)
    else
        call perform(run, comm)
    end if
    call has_ended(int(run%error%status, c_int32_t))
    ! HDF5 would close its file in MPI_Finalize. But MPICH, without one, kills whom it can, and the
    ! exit status is then of that.
    if (run%may_have_open_file) call exit_at_once(run%error%status)
    guard = new_watchdog(end_limit, rank, '', run%choice%directory, '')
    call guard%watch('end MPI')
    call MPI_Finalize()
    call exit_process(run%error%status)

end program benchio
