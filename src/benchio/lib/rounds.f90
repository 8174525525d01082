!> The rounds of a run: in each, every backend once, in an order that rotates.
!>
!> Contention then meets all backends alike, so the ratio of two in one round means something.
module benchio_rounds
    use, intrinsic :: iso_c_binding, only: c_funloc, c_int32_t, c_null_char, c_null_funptr
    use, intrinsic :: iso_fortran_env, only: error_unit, int64, output_unit, real64
    use mpi_f08, only: MPI_Allreduce, MPI_INT64_T, MPI_SUM
    use benchio_backend, only: backend, open_file, remarks
    use benchio_evidence, only: evidence, evidence_name, gather_evidence, wrong_place
    use benchio_failure, only: agree, exit_internal, exit_io, exit_time_limit, exit_verification, &
        failure
    use benchio_file_layout, only: check_layout
    use benchio_file_parts, only: name_one_file
    use benchio_file_task, only: agree_watched, diagnose_write, file_task, remove_task_file, &
        timed_move, timed_sync, timed_unlink
    use benchio_decomposition, only: decomposition
    use benchio_layout, only: file_share
    use benchio_metadata, only: run_metadata
    use benchio_pattern, only: differences, fill, halo_intact, kind_of_other, pattern_key, poison
    use benchio_phases, only: phase_rmdir, phase_total, phase_unlink, stopwatch, summarise
    use benchio_options, only: is_metadata
    use benchio_posix, only: file_size, remove_file, sleep_seconds, utc_now, write_file
    use benchio_registry, only: backend_item, learn_versions
    use benchio_report, only: table_text
    use benchio_result, only: case_index, gather_memory, has_cases, &
        observation, repetition, run_result
    use benchio_result_json, only: result_json
    use benchio_text, only: decimal
    use benchio_watchdog, only: bound_run, end_names, know_layouts, new_watchdog, unbound_run, &
        watchdog
    use benchio_witness, only: check_size, confirm_bytes, difference_of, drop_pages, &
        fraction_in_memory, offsets_of
    implicit none (type, external)
    private

    public :: remove_kept, run_rounds

    !> The run whose phases may be cut off, for the thread that then reports it. So nothing of it
    !> changes while a phase is watched: a phase has a failure and records apart from it.
    type(run_result), pointer :: bounded => null()

    !> One backend's turn in a round, as this rank has it.
    type :: turn
        class(backend), allocatable :: method
        integer :: backend_index = 0, target_index = 0, round = 0
        type(file_task) :: writes, reads            !! both share one watchdog
        type(repetition) :: written, was_read
        type(observation) :: seen
        type(differences) :: different              !! what this rank has read last
        type(evidence) :: wrong
        type(failure) :: error
    end type turn

contains

    !> Runs all rounds, or up to the first failure or the end of the run's time. Collective.
    subroutine run_rounds(run, methods)
        type(run_result), intent(inout), target :: run
        type(backend_item), intent(inout) :: methods(:)     !! in the order of --backend

        real(real64), allocatable, target :: storage(:)

        call know_layouts(run%place%keeper)
        call begin_observations(run)
        allocate (run%records(size(methods)*size(run%choice%operations)*size(run%place%targets), 0))
        call allocate_storage(run, storage)
        if (run%error%failed()) return
        ! What the report of a run needs that is cut off:
        call gather_memory(run)
        if (run%plan%rank == 0) call learn_versions()
        bounded => run
        call bound_run(int(run%choice%time_limit, c_int32_t), &
            merge(c_funloc(report_what_is_complete), c_null_funptr, run%plan%rank == 0))
        call end_without_target(run)
        call go_through_rounds(run, methods, storage)
        call unbound_run()
        nullify (bounded)
        run%may_have_open_file = run%error%status == exit_io
        if (run%error%status == exit_time_limit) then
            run%may_have_open_file = run%error%message /= ''
            run%error%message = rounds_done(run, run%error%message)
        end if
    end subroutine run_rounds

    !> Goes through the rounds. Collective.
    subroutine go_through_rounds(run, methods, storage)
        type(run_result), intent(inout) :: run
        type(backend_item), intent(inout) :: methods(:)
        real(real64), intent(inout), contiguous, target :: storage(:)

        type(failure) :: error
        type(watchdog) :: guard
        integer :: at, i, position, round, t, turn

        guard = new_watchdog(run%choice%phase_limit, run%plan%rank)
        do round = 1, last_round(run)
            error = run%error
            call guard%guard('', run%place%run_path, run%place%directories())
            call guard%watch('between two rounds')
            call guard%note_end(error, is_between_rounds=.true.)
            call agree_watched(guard, run%plan%comm, error)
            call guard%disarm()
            run%error = error
            if (run%error%failed()) return
            if (run%plan%rank == 0) call make_room(run, round)
            position = 0
            do turn = 1, size(run%place%targets)
                t = rotated(turn, size(run%place%targets), round)
                do at = 1, size(methods)
                    position = position + 1
                    if (run%place%targets(t)%error%failed()) cycle
                    i = rotated(at, size(methods), round)
                    if (is_metadata(run%choice)) then
                        call run_metadata(run, round, position)
                    else
                        call run_backend(run, methods, i, t, round, position, storage)
                    end if
                    call set_aside(run, t)
                    if (run%error%failed()) return
                    if (round < last_round(run) .or. position < size(run%seen)) call settle(run)
                end do
            end do
            call gather_memory(run)
            run%completed = round
            if (run%plan%rank == 0) call report_progress(run, round)
        end do
    end subroutine go_through_rounds

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
    !> the time of the run. The process sits in a call and ends next, so nothing else uses the run.
    subroutine report_what_is_complete(why) bind(C, name='benchio_report_what_is_complete')
        integer(c_int32_t), value :: why

        character(:), allocatable :: message

        associate (run => bounded)
            run%error%status = exit_time_limit
            run%error%rank = 0
            run%error%host = run%nodes%host_of(0)
            run%error%call = trim(end_names(why))
            run%error%path = run%place%run_path
            run%error%message = rounds_done(run, 'a phase that did not end')
            message = ''
            if (run%choice%json /= '') call write_file(run%choice%json, result_json(run), message)
            if (has_cases(run)) write (output_unit, '(a)', advance='no') table_text(run)
            if (message /= '') write (error_unit, '(a)') run%choice%json//': '//message
            write (error_unit, '(a)') 'benchio: error: '//run%error%line()
            flush (output_unit)
            flush (error_unit)
        end associate
    end subroutine report_what_is_complete

    !> Waits after files were removed, unless the run has to end.
    subroutine settle(run)
        type(run_result), intent(in) :: run

        type(failure) :: error
        type(watchdog) :: guard
        integer :: second

        guard = new_watchdog(run%choice%phase_limit, run%plan%rank)
        do second = 1, run%choice%settle
            call guard%note_end(error)
            if (error%failed()) return
            call sleep_seconds(1)
        end do
    end subroutine settle

    !> Makes room for what is seen of each backend and target: one that fails at once is never
    !> looked at.
    subroutine begin_observations(run)
        type(run_result), intent(inout) :: run

        integer :: i, t

        allocate (run%seen(size(run%choice%backends), size(run%place%targets)))
        do t = 1, size(run%seen, 2)
            do i = 1, size(run%seen, 1)
                allocate (run%seen(i, t)%hints(0))
                run%seen(i, t)%collective_metadata = ''
                run%seen(i, t)%collective = ''
                run%seen(i, t)%collective_read = ''
            end do
        end do
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

    !> Makes room for the larger of this rank's two blocks, with halo. Collective.
    subroutine allocate_storage(run, storage)
        type(run_result), intent(inout) :: run
        real(real64), allocatable, intent(out) :: storage(:)

        integer(int64) :: bytes
        integer :: code

        bytes = run%plan%write_share%block%field_bytes()
        if (any(run%choice%operations == 'read')) then
            bytes = max(bytes, run%plan%read_share%block%field_bytes())
        end if
        allocate (storage(bytes/8), stat=code)
        if (code /= 0) call run%error%set(exit_internal, 'allocate', '', &
            'no memory for the local array of '//decimal(bytes)//' bytes')
        call agree(run%error, run%plan%comm)
    end subroutine allocate_storage

    !> Gives one backend its turn in a round. A hang ends the run, whatever a rank is at.
    !> Collective.
    subroutine run_backend(run, methods, backend_index, target_index, round, position, storage)
        type(run_result), intent(inout) :: run
        type(backend_item), intent(in) :: methods(:)
        integer, intent(in) :: backend_index, target_index
        integer, intent(in) :: round, position      !! position in the round
        real(real64), intent(inout), contiguous, target :: storage(:)

        type(turn) :: this
        character(:), allocatable :: earlier

        allocate (this%method, source=methods(backend_index)%method)
        this%backend_index = backend_index
        this%target_index = target_index
        this%round = round
        this%written%round = round
        this%written%position = position
        this%written%is_warmup = round <= run%choice%warmup
        this%was_read = this%written
        this%seen = run%seen(backend_index, target_index)
        earlier = kept_paths(run, methods, 1)
        this%reads = new_task(run, this, run%plan%read_share, .false., earlier)
        this%writes = this%reads                    ! nothing: what is there already stays
        if (.not. run%choice%reads_existing) then
            this%writes = new_task(run, this, run%plan%write_share, .true., earlier)
        end if
        call use_files(run, this, storage)
        call this%writes%watchdog%disarm()
        run%seen(backend_index, target_index) = this%seen
        run%wrong = this%wrong
        run%error = this%error
        if (run%error%failed() .or. run%plan%rank /= 0) return
        this%was_read%witness = this%written%witness
        this%was_read%file_bytes = this%written%file_bytes
        call keep('write', this%written)
        call keep('read', this%was_read)

    contains

        subroutine keep(operation, record)
            character(*), intent(in) :: operation   !! which may not be measured
            type(repetition), intent(in) :: record

            integer :: number

            number = case_index(run%choice, operation, backend_index, target_index)
            if (number > 0) run%records(number, round) = record
        end subroutine keep

    end subroutine run_backend

    !> Writes the files, reads them, has the witness confirm them and removes them. Collective.
    subroutine use_files(run, this, storage)
        type(run_result), intent(in) :: run
        type(turn), intent(inout) :: this
        real(real64), intent(inout), contiguous, target :: storage(:)

        character(:), allocatable :: ignored
        type(stopwatch) :: times
        integer(int64) :: in_memory, unsynced
        logical :: is_read

        is_read = case_index(run%choice, 'read', this%backend_index, this%target_index) > 0
        associate (writes => this%writes, reads => this%reads, written => this%written, &
            error => this%error)
            written%started = utc_now()
            if (.not. run%choice%reads_existing) then
                call write_and_sync(run, this, storage, times)
                if (writes%companions /= '') reads%parts = writes%parts     ! there is no other file
            end if
            if (.not. error%failed()) call check_size(run%plan, writes, written%file_bytes, error)
            if (.not. error%failed()) call observe(run, this)
            if (is_read .and. .not. error%failed()) then
                call drop_pages(run%plan, writes, reads, error, unsynced, in_memory)
            else if (.not. error%failed()) then
                call drop_pages(run%plan, writes, reads, error, unsynced)
            end if
            if (.not. (run%choice%reads_existing .or. error%failed())) then
                written%witness%unsynced_fraction = fraction_in_memory(unsynced, &
                    written%file_bytes, run%plan%comm)
            end if
            if (is_read .and. .not. error%failed()) then
                call note_largest(fraction_in_memory(in_memory, run%bytes, run%plan%comm))
                call read_file(run, this, storage)
            end if
            if (.not. error%failed()) then
                call confirm_bytes(this%method, run%plan, writes, reads, &
                    key_of(run, this, reads%share), written%witness, this%different, error)
            end if
            if (error%status == exit_verification) call keep_evidence(run, this)
            if (run%choice%reads_existing) then
                if (any(error%status == [exit_io, exit_verification])) error%message = &
                    error%message//'; the file was written, and confirmed, by run ' &
                    //trim(run%kept%run_id)//' of '//trim(run%kept%started)
                return
            end if
            if (error%failed()) then
                ! A create that failed may have made none.
                if (writes%share%position == 0 .and. .not. is_evidence(this%wrong, &
                    writes%share)) call remove_task_file(writes, ignored)
                return
            end if
            if (kept_round(run, this%round) == 0) then
                call timed_unlink(writes, times, error)
                if (error%failed()) return
            end if
            call summarise(times, writes%share, run%plan, written%times)
        end associate

    contains

        !> The largest fraction of all rounds counts; one that nobody knows makes none known.
        subroutine note_largest(fraction)
            real(real64), intent(in) :: fraction

            associate (largest => this%seen%page_cache_fraction)
                largest = merge(-1.0_real64, max(largest, fraction), largest < 0 .or. fraction < 0)
            end associate
        end subroutine note_largest

    end subroutine use_files

    !> Finds out where the data are wrong, who has written them and what they are. Lets the files
    !> stay that have them. Collective.
    subroutine keep_evidence(run, this)
        type(run_result), intent(in) :: run
        type(turn), intent(inout) :: this

        character(:), allocatable :: message
        integer(int64) :: bytes, of_all
        integer :: k

        associate (wrong => this%wrong, error => this%error, writes => this%writes)
            call gather_evidence(this%different, offsets_of(this%different, this%method, run%plan, &
                this%reads), this%reads%share, run%plan, wrong)
            if (wrong%elements == 0) return
            wrong%backend = this%backend_index
            wrong%target = this%target_index
            bytes = 0
            if (writes%share%position == 0 .and. any(wrong%files == writes%share%file)) then
                call writes%parts%bytes(bytes, message)
            end if
            call MPI_Allreduce(bytes, of_all, 1, MPI_INT64_T, MPI_SUM, run%plan%comm)
            wrong%is_kept = run%choice%reads_existing .or. of_all <= run%choice%keep_corrupt
            do k = 1, size(wrong%places)
                associate (place => wrong%places(k))
                    place%path = path_of(run, this%method, this%target_index, place%file, &
                        this%round)
                    call place%find_stripe(this%seen%layout)
                    if (run%choice%reads_existing) then
                        place%host = run%kept%nodes%host_of(place%on_host_of)
                    else
                        place%host = run%nodes%host_of(place%on_host_of)
                    end if
                    if (place%kind == kind_of_other) place%pattern = pattern_name(run, &
                        this%target_index, this%round, place)
                end associate
            end do
            if (run%plan%rank > 0) return
            error%message = error%message//'; '//wrong%sentence()
            if (.not. wrong%is_kept) then
                error%message = error%message//'; '//decimal(of_all)//' bytes of files are not ' &
                    //'kept (--keep-corrupt)'
            else if (.not. run%choice%reads_existing) then
                error%message = error%message//'; kept: '//run%place%run_path
                call write_file(run%place%run_path//'/'//evidence_name, error%line() &
                    //new_line('a'), message)
            end if
        end associate
    end subroutine keep_evidence

    !> Says whether a file of the last round has wrong data and is to stay.
    pure logical function is_evidence(wrong, share)
        type(evidence), intent(in) :: wrong
        type(file_share), intent(in) :: share

        is_evidence = wrong%is_kept .and. any(wrong%files == share%file)
    end function is_evidence

    !> Returns the path of a file of a round of this run.
    function path_of(run, method, target_index, file, round) result(path)
        type(run_result), intent(in) :: run
        class(backend), intent(in) :: method
        integer, intent(in) :: target_index, file, round
        character(:), allocatable :: path

        path = run%place%path_of(target_index, method%name, method%extension, file, &
            run%plan%files, kept_round(run, round))
    end function path_of

    !> Names the file, round or backend whose values are in a place where others belong; another run
    !> of which nothing is known where it is none of this run's.
    function pattern_name(run, t, round, place) result(name)
        type(run_result), intent(in) :: run
        integer, intent(in) :: t, round
        type(wrong_place), intent(in) :: place
        character(:), allocatable :: name

        integer :: backend, file, other

        file = (t - 1)*run%plan%files
        do other = round, 1, -1
            do backend = 1, size(run%choice%backends)
                name = 'round '//decimal(other)//' of '//trim(run%choice%backends(backend))
                if (is_of(backend, file + place%file, other)) return
            end do
        end do
        do other = 0, run%plan%files*size(run%place%targets) - 1
            do backend = 1, size(run%choice%backends)
                name = 'file '//decimal(other)//' of '//trim(run%choice%backends(backend))
                if (is_of(backend, other, round)) return
            end do
        end do
        name = 'another run'

    contains

        logical function is_of(backend, file, round)
            integer, intent(in) :: backend, file, round

            is_of = place%key == pattern_key(run%choice%run_id, &
                trim(run%choice%backends(backend)), file, round)
        end function is_of

    end function pattern_name

    !> Says what this rank does with a file: that of its share, or of the rank whose place it takes.
    function new_task(run, this, share, writes, earlier) result(task)
        type(run_result), intent(in) :: run
        type(turn), intent(in) :: this
        type(file_share), intent(in) :: share
        logical, intent(in) :: writes               !! the file, or reads it
        character(*), intent(in) :: earlier         !! files that are kept, each ended by NUL
        type(file_task) :: task

        character(:), allocatable :: directories, made, written

        task%path = path_of(run, this%method, this%target_index, share%file, this%round)
        task%writes = writes
        task%share = share
        task%settings = this%method%heeded(run%choice%settings)
        task%companions = this%method%companions(task%settings)
        call name_one_file(task%path, task%parts)
        task%comm = run%plan%comm
        task%together = share%ranks
        if (run%choice%phase_barrier) task%together = run%plan%comm

        ! Whatever it works on, a hang must not leave the file that this rank has made.
        made = ''
        directories = ''
        if (.not. run%choice%reads_existing) then
            if (run%plan%write_share%position == 0) made = path_of(run, this%method, &
                this%target_index, run%plan%write_share%file, this%round)
            directories = run%place%directories()
        end if
        task%watchdog = new_watchdog(run%choice%phase_limit, run%plan%rank)
        written = ''
        if (writes) written = task%path
        call task%watchdog%guard(made, run%place%targets(this%target_index)%path, directories, &
            task%companions, written, share%block%global_bytes(), earlier)
    end function new_task

    !> The round of the run that has written the files which are kept; 0 if they are not.
    pure integer function kept_round(run, round)
        type(run_result), intent(in) :: run
        integer, intent(in) :: round                !! of this run

        kept_round = 0
        if (run%choice%reads_existing) then
            kept_round = run%kept%first_round + round - 1
        else if (run%choice%keeps .and. round > run%choice%warmup) then
            kept_round = round
        end if
    end function kept_round

    !> Removes what was kept from a round on, each file by the first rank that shares it.
    subroutine remove_kept(run, methods, first_round)
        type(run_result), intent(in) :: run
        type(backend_item), intent(in) :: methods(:)
        integer, intent(in) :: first_round

        character(:), allocatable :: ignored, rest

        rest = kept_paths(run, methods, first_round)
        do while (rest /= '')
            call remove_file(rest(:index(rest, c_null_char) - 1), ignored)
            rest = rest(index(rest, c_null_char) + 1:)
        end do
    end subroutine remove_kept

    !> Names the files that this rank has made and kept from a round on, each ended by NUL, with
    !> those of the round under way.
    function kept_paths(run, methods, first_round) result(paths)
        type(run_result), intent(in) :: run
        type(backend_item), intent(in) :: methods(:)
        integer, intent(in) :: first_round
        character(:), allocatable :: paths

        integer :: i, round, t

        paths = ''
        if (run%plan%write_share%position > 0 .or. .not. run%choice%keeps) return
        do round = max(first_round, run%choice%warmup + 1), run%completed + 1
            do t = 1, size(run%place%targets)
                do i = 1, size(methods)
                    if (run%wrong%backend == i .and. run%wrong%target == t .and. &
                        round > run%completed .and. &
                        is_evidence(run%wrong, run%plan%write_share)) cycle
                    paths = paths//path_of(run, methods(i)%method, t, &
                        run%plan%write_share%file, round)//c_null_char
                end do
            end do
        end do
    end function kept_paths

    !> Returns the key of a file, which no other of the run has: the files of a target are counted
    !> on from those of the target before.
    integer(int64) function key_of(run, this, share) result(key)
        type(run_result), intent(in) :: run
        type(turn), intent(in) :: this
        type(file_share), intent(in) :: share

        integer :: file

        associate (t => this%target_index, method => this%method, round => this%round)
            file = (t - 1)*run%plan%files + share%file
            if (run%choice%reads_existing) then
                key = pattern_key(trim(run%kept%run_id), method%name, file, kept_round(run, round))
            else
                key = pattern_key(run%choice%run_id, method%name, file, round)
            end if
        end associate
    end function key_of

    !> Writes new data and forces them to stable storage. Collective.
    subroutine write_and_sync(run, this, storage, times)
        type(run_result), intent(in) :: run
        type(turn), intent(inout) :: this
        real(real64), intent(inout), contiguous, target :: storage(:)
        type(stopwatch), intent(out) :: times

        class(open_file), allocatable :: file
        real(real64), pointer, contiguous :: field(:, :, :)
        type(remarks) :: from_library

        associate (task => this%writes, error => this%error)
            field => field_in(storage, task%share%block)
            call fill(field, task%share%block, key_of(run, this, task%share), &
                task%settings%access%kept_bits())
            call this%method%new_file(file)
            call timed_move(file, task, .true., field, times, error)
            if (.not. error%failed()) call timed_sync(file, task, times, error)
            call diagnose_write(task, error)
            if (error%failed()) return
            call file%collect_remarks(from_library)
            this%seen%hints = from_library%hints
            this%seen%collective = from_library%collective
        end associate
    end subroutine write_and_sync

    !> Has every rank read the share of another, if possible of one on another node, now that the
    !> kernel was asked to forget the files, and compare every bit. Collective.
    subroutine read_file(run, this, storage)
        type(run_result), intent(in) :: run
        type(turn), intent(inout) :: this
        real(real64), intent(inout), contiguous, target :: storage(:)

        class(open_file), allocatable :: file
        real(real64), pointer, contiguous :: field(:, :, :)
        type(remarks) :: from_library
        type(stopwatch) :: times

        this%was_read%started = utc_now()
        associate (block => this%reads%share%block, task => this%reads, error => this%error, &
            different => this%different)
            field => field_in(storage, block)
            call poison(field)
            call this%method%new_file(file)
            call timed_move(file, task, .false., field, times, error)
            if (error%failed()) return
            call task%watchdog%watch('compare')
            different = difference_of(task)
            call different%add_block(field, block, key_of(run, this, task%share))
            if (different%elements > 0) then
                call error%set(exit_verification, 'verify', task%path, &
                    different%line(block%elements(), block%global))
            else if (.not. halo_intact(field, block)) then
                call error%set(exit_verification, 'verify', task%path, 'the halo was overwritten')
            end if
            call agree_watched(task%watchdog, task%comm, error)
            if (error%failed()) return
            call file%collect_remarks(from_library)
            this%seen%collective_read = from_library%collective
            call summarise(times, task%share, run%plan, this%was_read%times)
        end associate
    end subroutine read_file

    !> Finds the array of a block, with its halo, in the memory for all arrays.
    function field_in(storage, block) result(field)
        real(real64), intent(inout), contiguous, target :: storage(:)
        type(decomposition), intent(in) :: block
        real(real64), pointer, contiguous :: field(:, :, :)

        field(1:block%extent(1) + 2*block%halo, 1:block%extent(2) + 2*block%halo, &
            1:block%extent(3) + 2*block%halo) => storage
    end function field_in

    !> Looks at what the library and the filesystem made of what was asked for. Collective.
    !>
    !> Files are looked at once a run, for their layout is their directory's and asking costs the
    !> metadata server; each of them where a layout was asked for, else the first. But a target may
    !> be exchanged whenever it fills up or is taken out, so there it is looked at in every round.
    subroutine observe(run, this)
        type(run_result), intent(in) :: run
        type(turn), intent(inout) :: this

        character(:), allocatable :: message, path
        integer(int64) :: bytes
        integer :: number
        logical :: looks

        associate (target => run%place%targets(this%target_index), task => this%writes, &
            seen => this%seen, error => this%error)
            seen%subfiles = task%parts%subfiles
            seen%subfile_writers = task%parts%writers
            seen%subfile_stripe = task%parts%stripe_size
            looks = this%round == 1 .or. target%name /= ''
            if (.not. looks) return
            call task%watchdog%watch('look at the layout')
            if (run%plan%rank == 0) call this%method%echo(task%path, task%settings, &
                seen%collective_metadata, error)
            looks = run%plan%rank == 0 .or. (target%request%is_set() &
                .and. task%share%position == 0)
            if (looks) then
                ! The first part is seen last, and stays.
                do number = merge(max(1, task%parts%subfiles), 1, target%request%is_set()), 1, -1
                    path = task%parts%path_of(number)
                    call file_size(path, bytes, message)
                    if (message == '') then
                        call check_layout(run%place%keeper, path, bytes, target%request, &
                            seen%layout, error)
                    else
                        call error%set(exit_io, 'stat', path, message)
                    end if
                end do
            end if
            call agree_watched(task%watchdog, run%plan%comm, error)
        end associate
    end subroutine observe

    !> One line a round on standard error: seconds from open to close, of all targets together; of
    !> metadata those of all phases.
    subroutine report_progress(run, round)
        type(run_result), intent(in) :: run
        integer, intent(in) :: round

        real(real64) :: seconds
        integer :: first, i, last, number, operation, t

        first = merge(phase_unlink, phase_total, is_metadata(run%choice))
        last = merge(phase_rmdir, phase_total, is_metadata(run%choice))
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
                            + sum(run%records(t, round)%times%of_phase(first:last)%window)
                    end do
                    write (error_unit, '(2x,a,f9.3,a)', advance='no') trim(choice%backends(i)), &
                        seconds, ' s'
                end do
            end do
        end associate
        write (error_unit, '()')
    end subroutine report_progress

end module benchio_rounds
