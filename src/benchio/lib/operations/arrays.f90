!> Arrays: in its turn in a round, a backend's files are written, read, confirmed by the witness and
!> removed.
module benchio_arrays
    use, intrinsic :: iso_c_binding, only: c_null_char
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Allreduce, MPI_INT64_T, MPI_SUM
    use benchio_backend, only: backend
    use benchio_decomposition, only: decomposition
    use benchio_evidence, only: evidence, evidence_name, gather_evidence, traced_extent
    use benchio_failure, only: agree, exit_internal, exit_io, exit_verification, failure
    use benchio_file_layout, only: check_layout
    use benchio_file_task, only: agree_watched, diagnose_write, file_task, find_parts, new_file, &
        timed_move, timed_sync, timed_unlink
    use benchio_filesystem, only: known_fraction
    use benchio_ownership, only: file_share
    use benchio_pattern, only: differences, fill, halo_intact, kind_of_other, pattern_key, poison
    use benchio_options, only: given_options, operation_word, options, options_of_access
    use benchio_phases, only: summarise
    use benchio_posix, only: file_size, remove_family, utc_now, write_file
    use benchio_raw_file, only: aligned_memory
    use benchio_registry, only: backend_item
    use benchio_report, only: array_table
    use benchio_result, only: case_index, new_repetition, observation, operation, repetition, &
        run_result, turn_of_round
    use benchio_text, only: decimal
    use benchio_watchdog, only: new_watchdog
    use benchio_witness, only: check_size, confirm_bytes, content_of, drop_pages, &
        fraction_in_memory, offsets_of
    implicit none (type, external)
    private

    public :: remove_kept

    type, extends(operation), public :: array_operation
        private
        type(aligned_memory) :: storage             !! of the larger of this rank's two blocks
    contains
        procedure, nopass :: words
        procedure, nopass :: settle
        procedure, nopass :: plan
        procedure :: begin
        procedure :: do_round => take_turn
        procedure :: finish => free_storage
        procedure, nopass :: says
        procedure, nopass :: table => array_table
    end type array_operation

    !> The turn as this rank has it.
    type :: turn
        type(turn_of_round) :: at
        type(file_task) :: writes, reads            !! both share one watchdog
        type(repetition) :: written, was_read
        type(observation) :: seen
        type(differences) :: different              !! what this rank has read last
        type(evidence) :: wrong
        type(failure) :: error
    end type turn

contains

    function words()
        type(operation_word), allocatable :: words(:)

        words = [operation_word('write', 'write, read, or write,read; for read alone, the files ' &
            //'are first written untimed; write-keep instead of write leaves the run''s ' &
            //'directory with the files of all measured rounds; read-existing reads each of ' &
            //'them, once, from the directory that is DIR then', is_alone=.false.), &
            operation_word('write-keep', is_alone=.false.), &
            operation_word('read', is_alone=.false.), operation_word('read-existing')]
    end function words

    subroutine settle(choice, given)
        type(options), intent(inout) :: choice
        type(given_options), intent(inout) :: given

        !> Options that files which are there have settled, or that only a write has.
        character(*), parameter :: of_writes(*) = [character(21) :: '--files', '--instances', &
            '--local-size', '--global-size', '--repeats', '--warmup', '--settle', '--flush', &
            '--chunk', '--alignment', '--file-format', '--stripe-count', '--stripe-size', &
            '--pool', '--setstripe', '--targets', '--mdt-index', options_of_access]

        choice%keeps = any(choice%words == 'write-keep')
        choice%reads_existing = any(choice%words == 'read-existing')
        choice%operations = [character(10) :: choice%words]
        where (choice%words == 'write-keep') choice%operations = 'write'
        where (choice%words == 'read-existing') choice%operations = 'read'
        choice%reads = choice%operations == 'read'
        call given%refuse(size(choice%words) > 1 .and. (count(choice%words == 'read') /= 1 &
            .or. count(choice%operations == 'write') /= 1), '--operation takes write or ' &
            //'write-keep, read, or both')
        associate (access => choice%settings%access)
            call given%refuse(access%quantize > 0 .and. access%deflate == 0, &
                '--quantize needs --deflate: what is rounded takes as much room')
            call given%refuse(access%has_rows() .and. given%has('--grid'), '--order ' &
                //trim(access%order)//' excludes --grid: the rows of all ranks lie side by side ' &
                //'along x')
            call given%refuse(choice%files == 'gather' .and. access%text() /= '', '--files ' &
                //'gather excludes '//access%text()//': its first rank moves whole planes')
            call given%refuse(access%subfiles > 0 .and. (choice%files /= 'shared' &
                .or. choice%instances > 1), '--subfiles takes --files shared and one instance: ' &
                //'it makes several files of one')
            call given%refuse(access%subfiles > 0 .and. choice%keeps, &
                '--subfiles excludes --operation write-keep: subfiles are not kept')
        end associate
        call given%refuse(choice%reads_existing .and. given%first_of(of_writes) /= '', &
            '--operation read-existing excludes '//given%first_of(of_writes) &
            //': the files are as they were written')
    end subroutine settle

    subroutine plan(run)
        type(run_result), intent(inout) :: run

        call MPI_Allreduce(run%plan%write_share%block%bytes(), run%bytes, 1, MPI_INT64_T, &
            MPI_SUM, run%plan%comm)
        run%room = run%bytes
    end subroutine plan

    function says(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        associate (choice => run%choice)
            text = decimal(run%plan%ranks)//' ranks, files: '//choice%files//' (' &
                //decimal(run%plan%files)//')'
            if (choice%instances > 1) text = text//', '//decimal(choice%instances)//' instances'
        end associate
    end function says

    !> Makes room for the larger of this rank's two blocks, with halo. Collective.
    subroutine begin(self, run)
        class(array_operation), intent(inout) :: self
        type(run_result), intent(inout) :: run

        integer(int64) :: bytes
        logical :: has_room

        bytes = run%plan%write_share%block%field_bytes()
        if (any(run%choice%operations == 'read')) then
            bytes = max(bytes, run%plan%read_share%block%field_bytes())
        end if
        call self%storage%provide(bytes/8, has_room)
        if (.not. has_room) call run%error%set(exit_internal, 'posix_memalign', '', &
            'no memory for the local array of '//decimal(bytes)//' bytes')
        call agree(run%error, run%plan%comm)
    end subroutine begin

    subroutine free_storage(self)
        class(array_operation), intent(inout) :: self

        call self%storage%free()
    end subroutine free_storage

    !> Gives one backend its turn. A hang ends the run, whatever a rank is at. Collective.
    subroutine take_turn(self, run, methods, at)
        class(array_operation), intent(inout) :: self
        type(run_result), intent(inout) :: run
        type(backend_item), intent(in), target :: methods(:)
        type(turn_of_round), intent(in) :: at

        type(turn) :: this
        character(:), allocatable :: earlier

        this%at = at
        this%written = new_repetition(run, at)
        this%was_read = this%written
        this%seen = run%seen(at%backend, at%target)
        earlier = kept_paths(run, methods, 1)
        associate (method => methods(at%backend)%method)
            this%reads = new_task(run, this, method, run%plan%read_share, .false., earlier)
            this%writes = this%reads                ! nothing: what is there already stays
            if (.not. run%choice%reads_existing) then
                this%writes = new_task(run, this, method, run%plan%write_share, .true., earlier)
            end if
        end associate
        call use_files(run, this, self%storage%values)
        call this%writes%watchdog%disarm()
        run%seen(at%backend, at%target) = this%seen
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

            number = case_index(run%choice, operation, at%backend, at%target)
            if (number > 0) run%records(number, at%round) = record
        end subroutine keep

    end subroutine take_turn

    !> Writes the files, reads them, has the witness confirm them and removes them. Collective.
    subroutine use_files(run, this, storage)
        type(run_result), intent(in) :: run
        type(turn), intent(inout) :: this
        real(real64), intent(inout), contiguous, target :: storage(:)

        character(:), allocatable :: ignored
        integer(int64) :: in_memory, unsynced
        logical :: measures_read
        real(real64) :: fraction

        measures_read = case_index(run%choice, 'read', this%at%backend, this%at%target) > 0
        unsynced = 0
        associate (writes => this%writes, reads => this%reads, written => this%written, &
            error => this%error)
            written%started = utc_now()
            if (.not. run%choice%reads_existing) call write_and_sync(this, storage)
            if (.not. error%failed()) call find_parts(reads, error)
            if (run%choice%reads_existing) writes%parts = reads%parts
            if (.not. error%failed()) call check_size(writes, run%place, written%file_bytes, &
                error)
            if (.not. error%failed()) call observe(run, this)
            if (measures_read .and. .not. error%failed()) call drop_pages(writes, reads, error, &
                unsynced, in_memory)
            if (measures_read .and. .not. error%failed()) then
                fraction = known_fraction(fraction_in_memory(in_memory, run%bytes, run%plan%comm), &
                    run%plan%other_node_byte_fraction, run%place%mounted%magic)
                ! The largest of all rounds counts; one that nobody knows makes none known.
                associate (largest => this%seen%page_cache_fraction)
                    largest = merge(-1.0_real64, max(largest, fraction), largest < 0 &
                        .or. fraction < 0)
                end associate
                call read_file(run, this, storage)
            end if
            if (.not. error%failed()) then
                call confirm_bytes(writes, reads, measures_read, unsynced, written%witness, &
                    this%different, error)
            end if
            if (.not. error%failed()) then
                associate (witness => written%witness)
                    if (.not. run%choice%reads_existing) witness%unsynced_fraction = &
                        fraction_in_memory(unsynced, written%file_bytes, run%plan%comm)
                    witness%page_cache_fraction = known_fraction(witness%page_cache_fraction, &
                        witness%other_node_byte_fraction, run%place%mounted%magic)
                end associate
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
                    writes%share)) call remove_family(writes%path, writes%companions, ignored)
                return
            end if
            if (kept_round(run, this%at%round) == 0) then
                call timed_unlink(writes, error)
                if (error%failed()) return
            end if
            call summarise(writes%times, writes%share, run%plan, written%times)
        end associate
    end subroutine use_files

    !> Finds out where the data are wrong, who has written them and what they are. Lets the files
    !> stay that have them. Collective.
    subroutine keep_evidence(run, this)
        type(run_result), intent(in) :: run
        type(turn), intent(inout) :: this

        character(:), allocatable :: message
        integer(int64) :: bytes, of_all
        type(failure) :: ignored
        integer :: k

        associate (wrong => this%wrong, error => this%error, writes => this%writes)
            call gather_evidence(this%different, offsets_of(this%different, this%reads), &
                this%reads%share, run%plan, wrong)
            if (wrong%elements == 0) return
            wrong%backend = this%at%backend
            wrong%target = this%at%target
            bytes = 0
            if (writes%share%position == 0 .and. any(wrong%files == writes%share%file)) then
                call writes%parts%bytes(bytes, ignored)
            end if
            call MPI_Allreduce(bytes, of_all, 1, MPI_INT64_T, MPI_SUM, run%plan%comm)
            wrong%is_kept = run%choice%reads_existing .or. of_all <= run%choice%keep_corrupt
            do k = 1, size(wrong%traced)
                associate (extent => wrong%traced(k))
                    extent%path = path_of(run, writes%method, this%at%target, extent%file, &
                        this%at%round)
                    call extent%find_stripe(this%seen%layout)
                    extent%host = run%nodes%host_of(extent%on_host_of)
                    if (run%choice%reads_existing) extent%host = run%kept%nodes%host_of( &
                        extent%on_host_of)
                    if (extent%kind == kind_of_other) extent%pattern = pattern_name(run, &
                        this%at%target, this%at%round, extent)
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

    !> Returns the key of a file: the files of a target are counted on from those of the target
    !> before. Another file of the run has the same one by a chance of one in 2^31.
    integer(int64) function key_of(run, backend, target_index, file, round) result(key)
        type(run_result), intent(in) :: run
        character(*), intent(in) :: backend         !! name
        integer, intent(in) :: target_index, file, round

        integer :: number

        number = (target_index - 1)*run%plan%files + file
        if (run%choice%reads_existing) then
            key = pattern_key(trim(run%kept%run_id), backend, number, kept_round(run, round))
        else
            key = pattern_key(run%choice%run_id, backend, number, round)
        end if
    end function key_of

    !> Names the file, round or backend whose values are in a place where others belong; another run
    !> of which nothing is known where it is none of this run's.
    function pattern_name(run, target_index, round, extent) result(name)
        type(run_result), intent(in) :: run
        integer, intent(in) :: target_index, round
        type(traced_extent), intent(in) :: extent
        character(:), allocatable :: name

        integer :: i, other

        do other = round, 1, -1
            do i = 1, size(run%choice%backends)
                name = 'round '//decimal(other)//' of '//trim(run%choice%backends(i))
                if (is_of(i, extent%file + (target_index - 1)*run%plan%files, other)) return
            end do
        end do
        do other = 0, run%plan%files*size(run%place%targets) - 1
            do i = 1, size(run%choice%backends)
                name = 'file '//decimal(other)//' of '//trim(run%choice%backends(i))
                if (is_of(i, other, round)) return
            end do
        end do
        name = 'another run'

    contains

        logical function is_of(i, file, round)
            integer, intent(in) :: i, file, round

            is_of = extent%key == pattern_key(run%choice%run_id, &
                trim(run%choice%backends(i)), file, round)
        end function is_of

    end function pattern_name

    !> Says what this rank does with a file: that of its share, or of the rank whose place it takes.
    function new_task(run, this, method, share, writes, earlier) result(task)
        type(run_result), intent(in) :: run
        type(turn), intent(in) :: this
        class(backend), intent(in), target :: method
        type(file_share), intent(in) :: share
        logical, intent(in) :: writes               !! the file, or reads it
        character(*), intent(in) :: earlier         !! files that are kept, each ended by NUL
        type(file_task) :: task

        character(:), allocatable :: directories, made, written

        task%method => method
        task%path = path_of(run, method, this%at%target, share%file, this%at%round)
        task%key = key_of(run, method%name, this%at%target, share%file, this%at%round)
        task%writes = writes
        task%share = share
        task%settings = run%choice%settings
        task%settings%access = method%heeded(task%settings%access)
        task%companions = method%companions(task%settings)
        call task%parts%name_parts([task%path])
        task%comm = run%plan%comm
        task%together = share%ranks
        if (run%choice%phase_barrier) task%together = run%plan%comm

        ! Whatever it works on, a hang must not leave the file that this rank has made.
        made = ''
        directories = ''
        if (.not. run%choice%reads_existing) then
            if (run%plan%write_share%position == 0) made = path_of(run, method, &
                this%at%target, run%plan%write_share%file, this%at%round)
            directories = run%place%directories()
        end if
        written = ''
        if (writes) written = task%path
        task%watchdog = new_watchdog(run%choice%phase_limit, run%plan%rank, made, &
            run%place%targets(this%at%target)%path, directories, task%companions, written, &
            share%block%global_bytes(), earlier, method%name)
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
            call remove_family(rest(:index(rest, c_null_char) - 1), '', ignored)
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

    !> Writes new data and forces them to stable storage. Collective.
    subroutine write_and_sync(this, storage)
        type(turn), intent(inout) :: this
        real(real64), intent(inout), contiguous, target :: storage(:)

        class(backend), allocatable :: file
        real(real64), pointer, contiguous :: field(:, :, :)

        associate (task => this%writes, error => this%error)
            field => field_in(storage, task%share%block)
            call fill(field, task%share%block, content_of(task))
            call new_file(task, file)
            call timed_move(file, task, field, error)
            if (.not. error%failed()) call timed_sync(task, error)
            call diagnose_write(task, error)
            if (error%failed()) return
            if (allocated(file%hints)) this%seen%hints = file%hints
            this%seen%collective = file%kind_of_transfer()
        end associate
    end subroutine write_and_sync

    !> Has every rank read the share of another, if possible of one on another node, now that the
    !> kernel was asked to forget the files, and compare every bit. Collective.
    subroutine read_file(run, this, storage)
        type(run_result), intent(in) :: run
        type(turn), intent(inout) :: this
        real(real64), intent(inout), contiguous, target :: storage(:)

        class(backend), allocatable :: file
        real(real64), pointer, contiguous :: field(:, :, :)

        this%was_read%started = utc_now()
        associate (block => this%reads%share%block, task => this%reads, error => this%error, &
            different => this%different)
            field => field_in(storage, block)
            call poison(field)
            call new_file(task, file)
            call timed_move(file, task, field, error)
            if (error%failed()) return
            call task%watchdog%watch('compare')
            different = differences(written=content_of(task))
            call different%add_block(field, block)
            if (different%elements > 0) then
                call error%set(exit_verification, 'verify', task%path, &
                    different%line(block%elements(), block%global))
            else if (.not. halo_intact(field, block)) then
                call error%set(exit_verification, 'verify', task%path, 'the halo was overwritten')
            end if
            call agree_watched(task%watchdog, task%comm, error)
            if (error%failed()) return
            this%seen%collective_read = file%kind_of_transfer()
            call summarise(task%times, task%share, run%plan, this%was_read%times)
        end associate
    end subroutine read_file

    !> Finds the array of a block, with its halo, in the memory for all arrays.
    function field_in(storage, block) result(field)
        real(real64), intent(inout), contiguous, target :: storage(:)
        type(decomposition), intent(in) :: block
        real(real64), pointer, contiguous :: field(:, :, :)

        associate (extent => block%extent + 2*block%halo)
            field(1:extent(1), 1:extent(2), 1:extent(3)) => storage
        end associate
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

        associate (target => run%place%targets(this%at%target), task => this%writes, &
            seen => this%seen, error => this%error)
            seen%subfiles = task%parts%subfiles
            seen%subfile_writers = task%parts%writers
            seen%subfile_stripe = task%parts%stripe_size
            looks = this%at%round == 1 .or. target%name /= ''
            if (.not. looks) return
            call task%watchdog%watch('look at the layout')
            if (run%plan%rank == 0) call task%method%echo(task%path, task%settings, &
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

end module benchio_arrays
