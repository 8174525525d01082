!> benchio: writes 3D block-distributed arrays through MPI-IO, HDF5, NetCDF, PnetCDF and POSIX, has
!> a witness confirm every byte, and only then reports a bandwidth.
program benchio
    use, intrinsic :: iso_c_binding, only: c_null_char
    use, intrinsic :: iso_fortran_env, only: error_unit, int64, output_unit
    use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_Comm_dup, &
        MPI_Comm_rank, MPI_COMM_WORLD, MPI_Finalize, &
        MPI_Init_thread, MPI_INT64_T, MPI_SUM, MPI_THREAD_FUNNELED, &
        MPI_THREAD_MULTIPLE
    use benchio_command_line, only: help_text, parse_command_line
    use benchio_failure, only: agree, exit_io, exit_not_built_in, exit_ok, exit_usage, failure
    use benchio_kept_files, only: choose_readers, find_kept_files, write_record
    use benchio_layout, only: choose_partners, new_layout
    use benchio_metadata, only: metadata_bytes, metadata_room
    use benchio_nodes, only: find_nodes, list_nodes
    use benchio_node_state, only: look_at_node, node_state
    use benchio_options, only: is_metadata, layout_requests, options
    use benchio_posix, only: exit_at_once, exit_process, path_exists, probe_file, remove_file, &
        utc_now, write_file
    use benchio_registry, only: backend_item, backend_names, new_backend
    use benchio_report, only: plan_text, table_text, version_text
    use benchio_result, only: gather_memory, gather_nodes, has_cases, run_result
    use benchio_result_json, only: result_json
    use benchio_rounds, only: remove_kept, run_rounds
    use benchio_run_directory, only: check_room, choose_run_id, inspect_place, &
        make_run_directory, place_targets, remove_run_directory
    use benchio_settings, only: io_settings
    use benchio_text, only: one_line
    use benchio_watchdog, only: catch_interrupts, new_watchdog, start_watchdog, watchdog
    implicit none (type, external)

    type(run_result) :: run
    type(options) :: choice
    type(backend_item), allocatable :: methods(:)
    character(:), allocatable :: message
    type(MPI_Comm) :: comm
    type(node_state) :: node
    type(watchdog) :: guard
    integer(int64) :: room      ! for all files of a backend, bytes
    integer :: rank
    integer :: threads          ! what MPI says of them
    integer :: i
    type(failure) :: kept_error
    integer, parameter :: least_finalize_limit = 300    ! s

    ! Without MPI, which starts on no login node of a Cray.
    call parse_command_line(choice, message)
    if (message == '' .and. (choice%help .or. choice%version)) then
        if (is_first_process()) then
            if (choice%help) write (output_unit, '(a)', advance='no') help_text()
            if (.not. choice%help) write (output_unit, '(a)', advance='no') version_text()
        end if
        call exit_process(exit_ok)
    end if

    call catch_interrupts()
    call start_mpi()
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    call MPI_Comm_rank(comm, rank)
    call find_nodes(comm, run%plan%nodes)

    if (message /= '') call refuse(exit_usage, message)
    if (threads < MPI_THREAD_FUNNELED) call refuse(exit_not_built_in, 'this MPI knows ' &
        //'MPI_THREAD_SINGLE alone, and the watchdog of benchio is a thread')
    call start_watchdog(run%error)
    call agree(run%error, comm)
    if (run%error%failed()) call refuse(run%error%status, run%error%line())
    call choose_backends()
    guard = new_watchdog(choice%phase_limit, rank)
    call guard%guard('', choice%directory, '')
    if (choice%reads_existing) then
        call guard%watch('look for what was kept')
        call find_kept_files(choice%directory, comm, run%plan%nodes, choice, run%kept, run%error)
        call guard%disarm()
        if (run%error%failed()) call refuse(run%error%status, run%error%line())
    end if
    call new_layout(choice, comm, run%plan, run%error)
    if (run%error%failed()) call refuse(exit_usage, run%error%message)

    run%choice = choice
    call choose_run_id(choice%run_id, comm, run%choice%run_id, run%error)
    run%started = utc_now()
    node = look_at_node(run%plan%nodes%is_leader)
    call MPI_Allreduce(run%plan%write_share%block%bytes(), run%bytes, 1, MPI_INT64_T, MPI_SUM, comm)
    if (is_metadata(choice)) run%bytes = metadata_bytes(choice%items, run%plan%ranks)
    call list_nodes(run%plan%nodes, run%nodes)
    if (choice%dry_run) choice%json = ''
    if (choice%json /= '') call prepare_result_file()
    call guard%watch('look at the directory')
    call inspect_place(choice%directory, choice%filesystems, layout_requests(choice), &
        choice%mdt_index, comm, run%place, run%error)
    do i = 1, size(methods)
        message = methods(i)%method%path_objection(run%place%path)
        if (message /= '') call run%error%set(exit_io, '--dir', run%place%path, message)
    end do
    call agree(run%error, comm)
    if (.not. (run%error%failed() .or. choice%reads_existing)) then
        room = run%bytes
        if (is_metadata(choice)) room = metadata_room(choice%items, run%plan%ranks, &
            run%place%mounted%block_bytes)
        call check_room(run%place, room, merge(size(methods)*size(run%place%targets) &
            *choice%repeats, 1, choice%keeps), comm, run%error)
    end if
    call guard%disarm()
    if (choice%dry_run) then
        if (rank == 0) write (output_unit, '(a)', advance='no') plan_text(run)
    else if (.not. run%error%failed() .and. choice%reads_existing) then
        call read_existing()
    else if (.not. run%error%failed()) then
        call measure()
    end if
    call guard%guard('', choice%directory, '')
    call guard%watch('write the result')
    call gather_memory(run)
    call gather_nodes(run, node)
    call report()
    ! HDF5 would close its file in MPI_Finalize. But MPICH, without one, kills whom it can, and the
    ! exit status is then of that.
    if (run%may_have_open_file) call exit_at_once(run%error%status)
    call leave(run%error%status, '')

contains

    !> Starts MPI for a process whose watchdog is a thread that calls no MPI. HDF5 makes subfiles in
    !> threads of its own, and those do; where none are to be made, MPI need not bear with them,
    !> which costs it locks.
    subroutine start_mpi()
        call MPI_Init_thread(merge(MPI_THREAD_MULTIPLE, MPI_THREAD_FUNNELED, &
            choice%settings%access%subfiles > 0), threads)
    end subroutine start_mpi

    !> Collective: all rounds, in a directory of their own.
    subroutine measure()
        call guard%watch('make the run''s directory')
        call make_run_directory(run%place, run%choice%run_id, choice%mdt_index, &
            run%plan%nodes%is_leader, comm, run%error)
        call guard%disarm()
        if (run%error%failed()) return
        call choose_partners(choice, run%place%is_node_local, run%plan)
        call run_rounds(run, methods)
        call guard%watch('remove the run''s directory')
        if (choice%keeps) then
            if (has_cases(run)) call remove_kept(run, methods, run%completed + 1)
            if (has_cases(run)) call write_record(run%place%run_path, run%place%directories() &
                //run%place%path//c_null_char, run%choice, run%plan, run%started, run%completed, &
                run%nodes, error=kept_error)
            if (has_cases(run) .and. .not. kept_error%failed()) then
                call guard%disarm()
                return
            end if
            if (kept_error%failed()) run%error = kept_error
            call remove_kept(run, methods, 1)
        end if
        call agree(run%error, comm)     ! every rank has removed its files
        if (run%place%is_made_here) then
            call remove_run_directory(run%place, message)
            if (message /= '') call run%error%set(exit_io, 'rmdir', run%place%run_path, message)
        end if
        call agree(run%error, comm)
        call guard%disarm()
    end subroutine measure

    !> Collective: all rounds of what another run has kept, in its directory.
    subroutine read_existing()
        call place_targets(run%place, run%place%path)
        call choose_readers(choice, run%kept, run%plan)
        call run_rounds(run, methods)
    end subroutine read_existing

    !> Of those that a launcher started; without one, this is the only process.
    logical function is_first_process()
        character(*), parameter :: ranks(5) = [character(20) :: 'OMPI_COMM_WORLD_RANK', &
            'PMIX_RANK', 'PMI_RANK', 'SLURM_PROCID', 'ALPS_APP_PE']
        character(8) :: rank_text
        integer :: i, status

        is_first_process = .true.
        do i = 1, size(ranks)
            call get_environment_variable(trim(ranks(i)), rank_text, status=status)
            if (status == 0) is_first_process = is_first_process .and. rank_text == '0'
        end do
    end function is_first_process

    !> Collective: chooses a backend of each name. The run ends with status 2 where a name is not
    !> known or a backend cannot do what is asked for, and 6 where this build cannot.
    subroutine choose_backends()
        character(:), allocatable :: name
        type(io_settings) :: heeded
        logical :: makes_subfiles, posts
        integer :: i

        makes_subfiles = .false.
        posts = .false.
        allocate (methods(size(choice%backends)))
        do i = 1, size(methods)
            name = trim(choice%backends(i))
            if (all(backend_names /= name)) then
                call refuse(exit_usage, '--backend does not know "'//name// &
                    '"; there are mpiio, hdf5, netcdf, pnetcdf and posix')
            end if
            methods(i) = new_backend(name)
            if (.not. allocated(methods(i)%method)) call refuse(exit_not_built_in, 'backend ' &
                //name//' is not built in: it was configured without that library')
            run%error = methods(i)%method%objection(choice%settings)
            call agree(run%error, comm)     ! one node's environment may be the reason
            if (run%error%failed()) then
                if (run%error%call /= '') run%error%message = run%error%line()
                call refuse(run%error%status, run%error%message)
            end if
            heeded = methods(i)%method%heeded(choice%settings)
            posts = posts .or. heeded%access%is_nonblocking
            makes_subfiles = makes_subfiles .or. heeded%access%subfiles > 0
        end do
        if (choice%settings%access%is_nonblocking .and. .not. posts) call refuse(exit_usage, &
            '--nonblocking needs a backend that has nonblocking transfers')
        if (choice%settings%access%subfiles > 0 .and. .not. makes_subfiles) call refuse( &
            exit_usage, '--subfiles needs a backend that makes subfiles')
    end subroutine choose_backends

    !> Yesterday's result must not be taken for this run's; and a run whose result cannot be
    !> written need not start.
    subroutine prepare_result_file()
        character(:), allocatable :: text
        logical :: exists

        if (rank == 0) then
            call probe_file(choice%json, text)
            if (text /= '') call run%error%set(exit_io, 'open', choice%json, text)
            call path_exists(choice%json, exists, text)
            if (exists .and. .not. run%error%failed()) call remove_file(choice%json, text)
            if (text /= '') call run%error%set(exit_io, 'unlink', choice%json, text)
        end if
        call agree(run%error, comm)
        if (run%error%failed()) call leave(run%error%status, 'benchio: error: '//run%error%line())
    end subroutine prepare_result_file

    !> On rank 0: the result file, then the table and the error.
    subroutine report()
        character(:), allocatable :: text

        if (rank == 0) then
            if (choice%json /= '') then
                call write_file(choice%json, result_json(run), text)
                if (text /= '') call run%error%set(exit_io, 'write', choice%json, text)
            end if
            if (has_cases(run) .and. .not. choice%dry_run) then
                write (output_unit, '(a)', advance='no') table_text(run)
            end if
            if (run%error%failed()) write (error_unit, '(a)') 'benchio: error: '//run%error%line()
        end if
        call agree(run%error, comm)
    end subroutine report

    !> Ends a run before it began. Yesterday's result must not outlive that either.
    subroutine refuse(status, text)
        integer, intent(in) :: status
        character(*), intent(in) :: text

        character(:), allocatable :: ignored

        if (rank == 0 .and. choice%json /= '' .and. .not. choice%dry_run) then
            call remove_file(choice%json, ignored)
        end if
        call leave(status, 'benchio: error: '//text)
    end subroutine refuse

    !> Ends all ranks alike; rank 0 says the text, on standard error if something failed.
    subroutine leave(status, text)
        integer, intent(in) :: status
        character(*), intent(in) :: text

        if (rank == 0 .and. text /= '') then
            if (status == exit_ok) then
                write (output_unit, '(a)', advance='no') text
            else
                write (error_unit, '(a)') one_line(text)
            end if
        end if
        ! The result is there: a launcher on a busy machine may take its time.
        guard = new_watchdog(max(choice%phase_limit, least_finalize_limit), rank)
        call guard%guard('', choice%directory, '')
        call guard%watch('end MPI')
        call MPI_Finalize()
        call guard%disarm()
        call exit_process(status)
    end subroutine leave

end program benchio
