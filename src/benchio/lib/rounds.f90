!> The rounds of a run: in each, every backend once, in an order that rotates.
!>
!> Contention then meets all backends alike, so the ratio of two in one round means something.
module benchio_rounds
    use, intrinsic :: iso_c_binding, only: c_funloc, c_int, c_int32_t, c_null_funptr
    use, intrinsic :: iso_fortran_env, only: error_unit, int64, output_unit, real64
    use mpi_f08, only: MPI_2DOUBLE_PRECISION, MPI_Allreduce, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, &
        MPI_MAX, MPI_MAXLOC
    use benchio_failure, only: agree, exit_internal, exit_io, exit_time_limit, failure
    use benchio_file_task, only: agree_watched
    use benchio_phases, only: least_steps, phase_names, step_of_clock
    use benchio_posix, only: fortran_text, now, sleep, write_file
    use benchio_registry, only: backend_item, learn_versions
    use benchio_report, only: table_text
    use benchio_result, only: case_index, gather_memory, has_cases, latency_phases, observation, &
        repetition, run_result, turn_of_round
    use benchio_result_json, only: result_json
    use benchio_text, only: decimal
    use benchio_watchdog, only: bound_run, end_notice, has_ended, know_layouts, new_watchdog, &
        report_by, stopped_seconds, unbound_run, watchdog
    implicit none (type, external)
    private

    public :: publish, report_ends, run_rounds

    !> The run whose phases may be cut off, for the thread that then reports it. So nothing of it
    !> changes while a phase is watched: a phase has a failure and records apart from it.
    type(run_result), pointer :: bounded => null()

contains

    !> Runs all rounds, or up to the first failure or the end of the run's time. Collective.
    subroutine run_rounds(run, methods)
        type(run_result), intent(inout), target :: run
        type(backend_item), intent(inout) :: methods(:)     !! in the order of --backend

        integer :: i

        call know_layouts(run%place%keeper)
        call begin_observations(run)
        allocate (run%records(size(methods)*size(run%choice%operations)*size(run%place%targets), 0))
        call run%operation%begin(run)
        if (run%error%failed()) return
        call bound_run(int(run%choice%time_limit, c_int32_t))
        call end_without_target(run)
        call go_through_rounds(run, methods)
        call run%operation%finish()
        do i = 1, size(methods)
            call methods(i)%method%buffer%free()
        end do
        call unbound_run()
        run%may_have_open_file = run%error%status == exit_io
        if (run%error%status == exit_time_limit) then
            run%may_have_open_file = run%error%message /= ''
            run%error%message = rounds_done(run, run%error%message)
        end if
    end subroutine run_rounds

    !> Has a run reported, from now until it is published, whatever ends it. Collective.
    subroutine report_ends(run)
        type(run_result), intent(inout), target :: run

        call gather_memory(run)         ! what the report needs
        if (run%plan%rank == 0) call learn_versions()
        bounded => run
        call report_by(merge(c_funloc(report_what_is_complete), c_null_funptr, run%plan%rank == 0))
    end subroutine report_ends

    !> Goes through the rounds. Collective.
    subroutine go_through_rounds(run, methods)
        type(run_result), intent(inout) :: run
        type(backend_item), intent(inout) :: methods(:)

        type(failure) :: error
        type(watchdog) :: guard
        type(turn_of_round) :: at
        integer :: i, round, t
        real(real64) :: stopped, suspended

        do round = 1, last_round(run)
            stopped = stopped_seconds()
            error = run%error
            guard = new_watchdog(run%choice%phase_limit, run%plan%rank, '', run%place%run_path, &
                run%place%directories())
            call guard%watch('between two rounds')
            call guard%note_end(error, is_between_rounds=.true.)
            call agree_watched(guard, run%plan%comm, error)
            call guard%disarm()
            run%error = error
            if (run%error%failed()) return
            if (run%plan%rank == 0) call make_room(run, round)
            at = turn_of_round(round=round)
            do t = 1, size(run%place%targets)
                at%target = rotated(t, size(run%place%targets), round)
                do i = 1, size(methods)
                    at%position = at%position + 1
                    if (run%place%targets(at%target)%error%failed()) cycle
                    at%backend = rotated(i, size(methods), round)
                    call run%operation%do_round(run, methods, at)
                    call set_aside(run, at%target)
                    if (run%error%failed()) return
                    if (round < last_round(run) .or. at%position < size(run%seen)) then
                        call settle(run, guard)
                    end if
                end do
            end do
            call gather_memory(run)
            call check_clocks(run, round)
            if (run%error%failed()) return
            call MPI_Allreduce(stopped_seconds() - stopped, suspended, 1, MPI_DOUBLE_PRECISION, &
                MPI_MAX, run%plan%comm)
            if (run%plan%rank == 0) run%records(:, round)%suspended = suspended
            run%completed = round
            if (run%plan%rank == 0) call report_progress(run, round)
        end do
    end subroutine go_through_rounds

    !> Refuses a round in which a rate would be of less time than a clock can tell. Collective.
    !>
    !> Ranks of a node are taken to have one clock: none of them leaves an exchange before another
    !> has entered it, unless their clocks differ, by that time or more.
    subroutine check_clocks(run, round)
        type(run_result), intent(inout) :: run
        integer, intent(in) :: round

        integer, parameter :: calls_of_span = 10    ! the median of single calls may be 10 % wrong
        character(:), allocatable :: name
        character(8) :: numbers(2)
        real(real64) :: coarsest(2), last, seconds  ! a step and its rank; when the last had come
        integer :: i, number, worst

        last = now()
        call MPI_Allreduce(MPI_IN_PLACE, last, 1, MPI_DOUBLE_PRECISION, MPI_MAX, &
            run%plan%nodes%on_node)
        last = last - now()
        coarsest = [max(last, step_of_clock()), real(run%plan%rank, real64)]
        call MPI_Allreduce(MPI_IN_PLACE, coarsest, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, &
            run%plan%comm)
        worst = nint(coarsest(2))
        do number = 1, merge(size(run%records, 1), 0, run%plan%rank == 0)
            associate (record => run%records(number, round))
                if (record%round == 0) cycle
                record%times%clock_step = coarsest(1)
                call record%times%find_shortest(seconds, name)
                if (allocated(record%latency%of_call)) then
                    i = minloc(record%latency%of_call%values(1, 1), 1)
                    seconds = calls_of_span*record%latency%of_call(i)%values(1, 1)
                    name = trim(phase_names(latency_phases(i)))
                end if
                if (seconds >= least_steps*coarsest(1) .or. run%error%failed()) cycle
                write (numbers, '(es8.2)') min(coarsest(1), 1e9_real64), seconds
                call run%error%set(exit_internal, 'clock', '', 'it goes in steps of '//numbers(1) &
                    //' s, or differs by that from the clock of another rank there: too much for ' &
                    //name//' of '//numbers(2)//' s; see which clocksource the kernel has')
                run%error%rank = worst
                run%error%host = run%nodes%host_of(worst)
            end associate
        end do
        call agree(run%error, run%plan%comm)
    end subroutine check_clocks

    pure integer function last_round(run)
        type(run_result), intent(in) :: run

        last_round = run%choice%warmup + run%choice%repeats
    end function last_round

    !> Says how far a run came, and the phase in which a round was left; empty: between two.
    pure function rounds_done(run, phase) result(text)
        type(run_result), intent(in) :: run
        character(*), intent(in) :: phase
        character(:), allocatable :: text

        text = decimal(run%completed)//' of '//decimal(last_round(run))//' rounds done'
        if (phase /= '') text = text//', the next was left in '//phase
    end function rounds_done

    !> Reports the rounds that are complete, on rank 0, in a thread of its own: a phase has outlived
    !> the time of the run, or a library has ended a rank. The process sits in a call and ends next,
    !> so nothing else uses the run.
    subroutine report_what_is_complete(why) bind(C, name='benchio_report_what_is_complete')
        type(end_notice), intent(in) :: why

        associate (run => bounded)
            run%error%status = why%status
            run%error%rank = why%rank
            run%error%host = fortran_text(why%host)
            run%error%call = fortran_text(why%call)
            run%error%path = fortran_text(why%path)
            if (why%status == exit_time_limit) then
                run%error%path = run%place%run_path
                run%error%message = rounds_done(run, 'a phase that did not end')
            else
                run%error%message = fortran_text(why%message)//'; '//rounds_done(run, '')
            end if
            call write_result(run)
        end associate
    end subroutine report_what_is_complete

    !> Publishes the result of a run on rank 0, after which nothing may cost it.
    subroutine publish(run)
        type(run_result), intent(inout) :: run

        call report_by(c_null_funptr)
        call write_result(run)
    end subroutine publish

    !> Writes the result file, the table and the error, on rank 0.
    subroutine write_result(run)
        type(run_result), intent(inout) :: run

        character(:), allocatable :: message

        associate (file => run%choice%json)
            message = ''
            if (file /= '') call write_file(file, result_json(run), message)
            if (message /= '' .and. run%error%failed()) write (error_unit, '(3a)') &
                file, ': ', message
            if (message /= '') call run%error%set(exit_io, 'write', file, message)
        end associate
        call has_ended(int(run%error%status, c_int32_t))
        if (has_cases(run) .and. .not. run%choice%dry_run) then
            write (output_unit, '(a)', advance='no') table_text(run)
        end if
        if (run%error%failed()) write (error_unit, '(a)') 'benchio: error: '//run%error%line()
        flush (output_unit)
        flush (error_unit)
    end subroutine write_result

    !> Waits after files were removed, unless the run has to end.
    subroutine settle(run, guard)
        type(run_result), intent(in) :: run
        type(watchdog), intent(in) :: guard

        type(failure) :: error
        integer :: left, second

        do second = 1, run%choice%settle
            call guard%note_end(error)
            if (error%failed()) return
            left = sleep(1_c_int)
        end do
    end subroutine settle

    !> Makes room for what is seen of each backend and target: one that fails at once is never
    !> looked at.
    subroutine begin_observations(run)
        type(run_result), intent(inout) :: run

        type(observation) :: nothing

        allocate (nothing%hints(0))
        nothing%collective_metadata = ''
        nothing%collective = ''
        nothing%collective_read = ''
        allocate (run%seen(size(run%choice%backends), size(run%place%targets)), source=nothing)
    end subroutine begin_observations

    !> Which of n comes at a place of a round: each begins one in n rounds.
    pure integer function rotated(place, n, round)
        integer, intent(in) :: place, n, round

        rotated = 1 + mod(round + place - 2, n)
    end function rotated

    !> Of several targets one that failed is left out from now on, and the run goes on while there
    !> is another. Wrong data are never only a target's: they end the run.
    subroutine set_aside(run, t)
        type(run_result), intent(inout) :: run
        integer, intent(in) :: t

        if (run%error%status /= exit_io .or. size(run%choice%targets) == 0) return
        run%place%targets(t)%error = run%error
        run%error = failure()
        call end_without_target(run)
    end subroutine set_aside

    !> A run of which every target has failed has failed, as the first of them did.
    subroutine end_without_target(run)
        type(run_result), intent(inout) :: run

        integer :: t

        do t = 1, size(run%place%targets)
            if (.not. run%place%targets(t)%error%failed()) return
        end do
        run%error = run%place%targets(1)%error
        if (size(run%place%targets) > 1) run%error%message = 'every target has failed, this one: ' &
            //run%error%message
    end subroutine end_without_target

    !> Room for the records of a round. Only rank 0 keeps them, and there may be very many.
    subroutine make_room(run, round)
        type(run_result), intent(inout) :: run
        integer, intent(in) :: round

        type(repetition), allocatable :: more(:, :)

        if (round <= size(run%records, 2)) return
        allocate (more(size(run%records, 1), 2*round))
        more(:, :round - 1) = run%records
        call move_alloc(more, run%records)
    end subroutine make_room

    !> One line a round on standard error: seconds from open to close, of all targets together;
    !> where there is no such span, those of all phases.
    subroutine report_progress(run, round)
        type(run_result), intent(in) :: run
        integer, intent(in) :: round

        real(real64) :: seconds
        integer :: i, number, operation, t

        associate (choice => run%choice, targets => size(run%place%targets))
            write (error_unit, '(a)', advance='no') 'benchio: round '//decimal(round)//'/' &
                //decimal(last_round(run))//trim(merge(' (warm-up)', '          ', &
                round <= choice%warmup))
            do operation = 1, size(choice%operations)
                write (error_unit, '(a)', advance='no') '  '//trim(choice%operations(operation))
                do i = 1, size(choice%backends)
                    number = case_index(choice, trim(choice%operations(operation)), i, 1)
                    seconds = 0
                    do t = number, number + targets - 1
                        if (run%records(t, round)%round > 0) seconds = seconds &
                            + run%records(t, round)%times%seconds()
                    end do
                    write (error_unit, '(2x,a,f9.3,a)', advance='no') trim(choice%backends(i)), &
                        seconds, ' s'
                end do
            end do
        end associate
        if (run%records(1, round)%suspended > 0) write (error_unit, '(a)', advance='no') &
            '  suspended for '//decimal(nint(run%records(1, round)%suspended))//' s'
        write (error_unit, '()')
    end subroutine report_progress

end module benchio_rounds
