!> A run, from its options to its result: for the program benchio, and for one of many in a process.
module benchio_run
    use, intrinsic :: iso_c_binding, only: c_null_char
    use, intrinsic :: iso_fortran_env, only: error_unit, int64, output_unit
    use mpi_f08, only: MPI_Comm, MPI_Comm_rank
    use benchio_arrays, only: remove_kept
    use benchio_failure, only: agree, exit_io, failure
    use benchio_kept_files, only: choose_readers, find_kept_files, write_record
    use benchio_ownership, only: choose_partners, new_ownership
    use benchio_node_state, only: facts, look_at_node, node_state, not_known
    use benchio_nodes, only: find_nodes, list_nodes
    use benchio_operations, only: operation_of
    use benchio_options, only: layout_requests
    use benchio_posix, only: attempt, path_exists, probe_file, remove_file, utc_now
    use benchio_registry, only: backend_item, choose_backends
    use benchio_report, only: plan_text
    use benchio_result, only: gather_environment, gather_memory, gather_nodes, &
        has_cases, room_of_round, run_result
    use benchio_rounds, only: publish, report_ends, run_rounds
    use benchio_run_directory, only: check_room, choose_run_id, inspect_place, make_run_directory, &
        place_targets, remove_run_directory
    use benchio_watchdog, only: new_watchdog, watchdog
    implicit none (type, external)
    private

    public :: perform, refuse

contains

    !> Does what the options of a run ask for, and reports it. Collective.
    subroutine perform(run, comm)
        type(run_result), intent(inout) :: run      !! with its options, and then its error
        type(MPI_Comm), intent(in) :: comm          !! all ranks

        type(backend_item), allocatable :: methods(:)
        type(node_state) :: node
        type(watchdog) :: guard
        integer :: rank

        call MPI_Comm_rank(comm, rank)
        run%operation => operation_of(run%choice%words(1))
        guard = new_watchdog(run%choice%phase_limit, rank, '', run%choice%directory, '')
        call plan_run(run, guard, comm, methods)
        if (run%error%failed()) then
            call refuse(run, rank)
            return
        end if
        node = look_at_node(run%plan%nodes%is_leader)
        call gather_environment(run)    ! for a result that a phase without an end cuts off
        if (.not. run%choice%dry_run) call report_ends(run)
        call guard%watch('look at the directory')
        call look_at_place(run, methods)
        call guard%disarm()
        if (run%choice%dry_run) then
            if (rank == 0) write (output_unit, '(a)', advance='no') plan_text(run)
        else if (.not. run%error%failed() .and. run%choice%reads_existing) then
            call place_targets(run%place, run%place%path)
            call choose_readers(run%choice, run%kept, run%plan)
            call run_rounds(run, methods)
        else if (.not. run%error%failed()) then
            call measure(run, guard, methods)
            call guard%disarm()
        end if
        guard = new_watchdog(run%choice%phase_limit, rank, '', run%choice%directory, '')
        call guard%watch('write the result')
        call gather_memory(run)
        call gather_nodes(run, node)
        call gather_environment(run)    ! components are loaded with the first file
        if (rank == 0) call publish(run)
        call agree(run%error, comm)
        call guard%disarm()
    end subroutine perform

    !> Plans who writes and reads what. Collective. A failure means that there is to be no result.
    subroutine plan_run(run, guard, comm, methods)
        type(run_result), intent(inout) :: run
        type(watchdog), intent(inout) :: guard
        type(MPI_Comm), intent(in) :: comm
        type(backend_item), allocatable, intent(out) :: methods(:)

        character(:), allocatable :: run_id

        associate (choice => run%choice)
            call find_nodes(comm, run%plan%nodes)
            call choose_backends(choice, comm, methods, run%error)
            if (run%error%failed()) return
            if (choice%reads_existing) then
                call guard%watch('look for what was kept')
                call find_kept_files(choice%directory, comm, run%plan%nodes, choice, run%kept, &
                    run%error)
                call guard%disarm()
                if (run%error%failed()) return
            end if
            call new_ownership(choice, comm, run%plan, run%error)
            if (run%error%failed()) return
            call run%operation%plan(run)
            if (run%error%failed()) return
            call choose_run_id(choice%run_id, comm, run_id, run%error)
            choice%run_id = run_id
            run%started = utc_now()
            call list_nodes(run%plan%nodes, run%nodes)
            allocate (run%facts_of_node(facts, merge(run%plan%nodes%nodes, 0, &
                run%plan%rank == 0)), source=not_known)
            if (choice%dry_run) choice%json = ''
            if (choice%json /= '') call prepare_result_file(run)
        end associate
    end subroutine plan_run

    !> Removes yesterday's result, which must not be taken for this run's. A run whose result cannot
    !> be written need not start. Collective.
    subroutine prepare_result_file(run)
        type(run_result), intent(inout) :: run

        character(:), allocatable :: text
        logical :: exists

        associate (file => run%choice%json)
            if (run%plan%rank == 0) then
                call attempt(probe_file, file, text)
                if (text /= '') call run%error%set(exit_io, 'open', file, text)
                call path_exists(file, exists, text)
                if (exists .and. .not. run%error%failed()) call attempt(remove_file, file, text)
                if (text /= '') call run%error%set(exit_io, 'unlink', file, text)
            end if
        end associate
        call agree(run%error, run%plan%comm)
    end subroutine prepare_result_file

    !> Looks at the directory that is given, and whether it has room for the files. Collective.
    subroutine look_at_place(run, methods)
        type(run_result), intent(inout) :: run
        type(backend_item), intent(in) :: methods(:)

        character(:), allocatable :: message
        integer(int64) :: room      ! for all files of a backend, bytes
        integer(int64) :: rounds    ! of which the files stay, of all backends and targets
        integer :: i

        associate (choice => run%choice)
            call inspect_place(choice%directory, choice%filesystems, layout_requests(choice), &
                choice%mdt_index, run%plan%comm, run%place, run%error)
            do i = 1, size(methods)
                message = methods(i)%method%path_objection(run%place%path)
                if (message /= '') call run%error%set(exit_io, '--dir', run%place%path, message)
            end do
            call agree(run%error, run%plan%comm)
            if (run%error%failed() .or. choice%reads_existing) return
            room = room_of_round(run)
            rounds = 1
            if (choice%keeps) rounds = size(methods, kind=int64)*size(run%place%targets) &
                *choice%repeats
            call check_room(run%place, room, rounds, run%error)
        end associate
    end subroutine look_at_place

    !> Does all rounds, in a directory of their own. Collective.
    subroutine measure(run, guard, methods)
        type(run_result), intent(inout) :: run
        type(watchdog), intent(inout) :: guard
        type(backend_item), intent(inout) :: methods(:)

        character(:), allocatable :: message
        type(failure) :: kept_error

        call guard%watch('make the run''s directory')
        call make_run_directory(run%place, run%choice%run_id, run%choice%mdt_index, &
            run%plan%nodes%is_leader, run%error)
        call guard%disarm()
        if (run%error%failed()) return
        call choose_partners(run%choice, run%place%is_node_local, run%plan)
        call run_rounds(run, methods)
        call guard%watch('remove the run''s directory')
        if (run%choice%keeps) then
            if (has_cases(run)) call remove_kept(run, methods, run%completed + 1)
            if (has_cases(run)) call write_record(run%place%run_path, run%place%directories() &
                //run%place%path//c_null_char, run%choice, run%plan, run%started, run%completed, &
                run%nodes, error=kept_error)
            if (has_cases(run) .and. .not. kept_error%failed()) return
            if (kept_error%failed()) run%error = kept_error
            call remove_kept(run, methods, 1)
        end if
        call agree(run%error, run%plan%comm)        ! every rank has removed its files
        if (run%place%is_made_here) then
            call remove_run_directory(run%place, message)
            if (message /= '') call run%error%set(exit_io, 'rmdir', run%place%run_path, message)
        end if
        call agree(run%error, run%plan%comm)
    end subroutine measure

    !> Says on rank 0 why a run did not begin. Yesterday's result must not outlive that, either.
    subroutine refuse(run, rank)
        type(run_result), intent(in) :: run
        integer, intent(in) :: rank

        character(:), allocatable :: ignored

        if (rank > 0) return
        if (run%choice%json /= '' .and. .not. run%choice%dry_run) then
            call attempt(remove_file, run%choice%json, ignored)
        end if
        write (error_unit, '(2a)') 'benchio: error: ', run%error%line()
    end subroutine refuse

end module benchio_run
