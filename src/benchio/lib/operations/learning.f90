!> What programs that learn do: one round of `--operation samples`, `startup` or `checkpoint`.
!>
!> Half of the nodes make a set of files for the other half, and read what that has made: no node
!> reads what it may still remember. On a single node, half of the ranks do so, once the kernel was
!> asked to forget the files. Of samples, the ranks of a half read theirs in one shuffled order,
!> each sample once. Of a tree, as an installed environment has it, every rank looks at, opens,
!> reads and closes every file.
!>
!> Of a checkpoint, each rank writes its state, as shards and as a part of a file that all share,
!> and forces it to stable storage. Then every second rank of either half of the ranks reads what
!> two ranks of the other half have written; the last one, where a half is odd, what one has.
!>
!> The law holds here as for arrays. Inside the clock, a rank notes a digest of each sample that it
!> has read, and how long that took. After the clock, digests are compared with those of what was
!> written, and all ranks together must have read each sample once. Then the witness, a rank that
!> did not write the file, confirms every byte of every file.
module benchio_learning
    use, intrinsic :: iso_c_binding, only: c_int, c_int32_t, c_int64_t, c_int8_t, c_null_char
    use, intrinsic :: iso_fortran_env, only: int64, int8, real64
    use mpi_f08, only: MPI_Allreduce, MPI_Comm_free, MPI_Comm_rank, MPI_Comm_size, &
        MPI_Comm_split, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_INT64_T, MPI_SUM
    use benchio_access, only: element_bytes
    use benchio_evidence, only: evidence_name
    use benchio_failure, only: exit_internal, exit_io, exit_verification, failure
    use benchio_file_layout, only: check_layout, file_layout
    use benchio_file_set, only: c_act, c_compare, c_difference, c_make_state, c_read, &
        c_remove_directories, calls, do_close, do_confirm, do_forget, do_fsync, do_make, do_open, &
        do_put, do_unlink, do_write, fault_of_content, faults, file_bytes, file_of, file_set, &
        file_set_bytes, largest_sample, marks_of_samples, path_in_set, sample_at, sight
    use benchio_file_task, only: agree_watched, begin_operation, begin_phase, diagnose_write, &
        end_phase, end_span, file_task
    use benchio_filesystem, only: known_fraction
    use benchio_options, only: given_options, leave_array_out, operation_word, options
    use benchio_pattern, only: pattern_key
    use benchio_phases, only: part_names, part_stat, parts, phase_close, phase_open, phase_read, &
        phase_stable, phase_sync, phase_total, phase_write, stopwatch, summarise, timing
    use benchio_posix, only: attempt, make_directory, sync_all, text_of, write_file
    use benchio_registry, only: backend_item
    use benchio_report, only: lf, mib_text, witness_line
    use benchio_result, only: measured_rounds, new_repetition, operation, repetition, run_result, &
        turn_of_round
    use benchio_statistics, only: median
    use benchio_text, only: decimal
    use benchio_watchdog, only: new_watchdog, watchdog
    use benchio_witness, only: fraction_in_memory, testimony
    implicit none (type, external)
    private

    type, extends(operation), public :: learning_operation
    contains
        procedure, nopass :: words
        procedure, nopass :: settle
        procedure, nopass :: plan
        procedure :: do_round
        procedure, nopass :: says
        procedure, nopass :: table
    end type learning_operation

    !> A set of files, and this rank's part of it.
    type :: shared_set
        type(file_set) :: set
        character(:), allocatable :: directory
        integer(int64) :: order = 0                 !! the key of the order in which it is read
    end type shared_set

    !> A round as this rank has it.
    type :: learning_round
        type(file_task) :: task
        type(shared_set) :: mine                    !! that this rank writes, with its team
        type(shared_set) :: theirs                  !! that this rank reads, with its team
        integer(int64) :: number = 0, ranks = 1     !! of this rank in its team, from 0
        integer(int64) :: confirms = 0              !! the place whose files this rank confirms
        real(real64) :: from_other_nodes = 0        !! the part of the bytes that is read
        type(timing) :: written                     !! a checkpoint, on rank 0
        integer(int8), allocatable :: state(:)      !! that this rank writes of a checkpoint
        integer(c_int), allocatable :: opened(:)    !! files of it
        type(sight) :: seen_last                    !! by this rank, of its files
        integer(int64) :: from = 0, to = 0          !! places in the order, of what this rank reads
        type(file_layout) :: seen                   !! of a file, on rank 0 in the first round
        type(testimony) :: witness
        integer(int64) :: moved = 0                 !! bytes that this rank has read
        integer(int64) :: bytes = 0                 !! of all files
        real(real64) :: page_cache_fraction = 0     !! when the reads began; -1: unknown
        type(failure) :: error
    end type learning_round

contains

    !> Plans a set that so many ranks read.
    pure type(file_set) function new_file_set(choice, readers) result(set)
        type(options), intent(in) :: choice
        integer, intent(in) :: readers

        set%samples = choice%items
        set%files = choice%items
        if (choice%operations(1) == 'startup') return
        set%samples = int(choice%items, int64)*readers
        set%sample_bytes = choice%sample_bytes
        if (choice%operations(1) == 'checkpoint') then
            set%files = set%samples + 1
            set%samples = set%samples + readers
            set%shared = readers
            return
        end if
        set%per_file = choice%per_file
        set%files = (set%samples + set%per_file - 1)/set%per_file
    end function new_file_set

    function words()
        type(operation_word), allocatable :: words(:)

        words = [operation_word('samples', 'samples: shuffled reads of samples', &
            '--items --sample --per-file'), &
            operation_word('startup', 'startup: every rank reads all files of a tree', &
            '--items'), &
            operation_word('checkpoint', 'checkpoint: all ranks write large files, and half of ' &
            //'them read those', '--items --sample')]
    end function words

    subroutine settle(choice, given)
        type(options), intent(inout) :: choice
        type(given_options), intent(inout) :: given

        call leave_array_out(choice, given)
        if (choice%words(1) == 'checkpoint') choice%operations = [character(10) :: 'checkpoint', &
            'restart']
        choice%reads = choice%operations /= 'checkpoint'
        call given%refuse(given%has('--files'), '--operation '//trim(choice%words(1)) &
            //' has files of its own: leave out --files')
        call given%refuse(mod(choice%sample_bytes, int(element_bytes, int64)) /= 0, &
            '--sample takes a multiple of 8 bytes')
        choice%words = [character(13) :: choice%operations]
    end subroutine settle

    !> Counts the bytes of a round: samples of all ranks; a tree for each half of them.
    subroutine plan(run)
        type(run_result), intent(inout) :: run

        run%bytes = file_set_bytes(new_file_set(run%choice, run%plan%ranks))
        if (run%choice%operations(1) == 'startup') run%bytes = min(run%plan%ranks, 2)*run%bytes
        run%room = run%bytes
        run%blocks = 2_int64*run%choice%items*merge(1, run%plan%ranks, &
            run%choice%operations(1) == 'startup')
    end subroutine plan

    function says(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        character(:), allocatable :: items, size

        items = decimal(run%choice%items)
        size = decimal(run%choice%sample_bytes)
        associate (choice => run%choice)
            text = decimal(run%plan%ranks)//' ranks, each '
            select case (choice%operations(1))
            case ('samples')
                text = text//'reads '//items//' samples of '//size//' bytes, ' &
                    //decimal(choice%per_file)//' in a file'
            case ('checkpoint')
                text = text//'writes '//items//' shards of '//size//' bytes, and as much of a ' &
                    //'shared file'
            case default
                text = text//'reads a tree of '//items//' files'
            end select
        end associate
    end function says

    !> Returns a line per figure of reads that go from file to file.
    function table(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        character(64) :: line
        integer :: i, number

        text = 'repeats '//decimal(size(measured_rounds(run, 1)))//'; in all ' &
            //mib_text(run%bytes)//' a round'//lf
        do number = 1, size(run%choice%operations)
            associate (times => run%records(number, measured_rounds(run, number))%times)
                write (line, '(a,t17,3a12)') run%choice%operations(number), 'min', 'median', 'max'
                text = text//lf//trim(line)//lf
                if (times(1)%of_phase(phase_stable)%occurs) then
                    call add('seconds, synced', times%of_phase(phase_stable)%window)
                    call add('MiB/s, synced', times%mib/times%of_phase(phase_stable)%window)
                    cycle
                end if
                call add('seconds', times%of_phase(phase_total)%window)
                call add('reads/s', times%of_phase(phase_read)%operations &
                    /times%of_phase(phase_read)%window)
                call add('MiB/s', times%mib/times%of_phase(phase_total)%window)
                do i = part_stat, parts
                    if (times(1)%of_part(i)%occurs) call add('  s in '//part_names(i), &
                        times%of_part(i)%mean)
                end do
            end associate
        end do
        text = text//lf//witness_line(run, 1)//lf

    contains

        subroutine add(name, values)
            character(*), intent(in) :: name
            real(real64), intent(in) :: values(:)

            write (line, '(a,t17,3f12.3)') name, minval(values), median(values), maxval(values)
            text = text//trim(line)//lf
        end subroutine add

    end function table

    subroutine do_round(self, run, methods, at)
        class(learning_operation), intent(inout) :: self
        type(run_result), intent(inout) :: run
        type(backend_item), intent(in), target :: methods(:)
        type(turn_of_round), intent(in) :: at

        type(learning_round) :: this
        type(repetition) :: record

        record = new_repetition(run, at)
        this = new_round(run, at%round)
        call make_files(run, this)
        if (.not. this%error%failed()) then
            call this%task%watchdog%disarm()
            this%task%watchdog = new_guard(run, this, writes=.false.)
        end if
        call forget(run, this)
        call read_samples(run, this)
        call confirm(run, this)
        call remove_all(run, this)
        if (.not. this%error%failed()) then
            call summarise(this%task%times, this%task%share, run%plan, record%times, this%moved)
            record%times%of_phase(phase_read)%operations = int(run%choice%items, int64) &
                *run%plan%ranks
            if (this%theirs%set%shared > 0) record%times%of_phase(phase_read)%operations &
                = this%theirs%set%samples
            record%file_bytes = this%bytes
            record%witness = this%witness
        end if
        call this%task%watchdog%disarm()
        run%error = this%error
        run%plan%other_node_byte_fraction = this%from_other_nodes
        associate (largest => run%seen(1, 1)%page_cache_fraction, now => this%page_cache_fraction)
            largest = merge(-1.0_real64, max(largest, now), largest < 0 .or. now < 0)
        end associate
        if (run%error%failed() .or. run%plan%rank > 0) return
        if (at%round == 1) run%seen(1, 1)%layout = this%seen
        run%records(size(run%choice%operations), at%round) = record
        if (this%theirs%set%shared == 0) return
        record%times = this%written
        run%records(1, at%round) = record
    end subroutine do_round

    !> Prepares a round. Collective.
    type(learning_round) function new_round(run, round) result(new)
        type(run_result), intent(in) :: run
        integer, intent(in) :: round

        integer :: group, others, place, ranks
        type(file_task) :: task

        task%comm = run%plan%comm
        group = half_of(run)
        call MPI_Comm_split(task%comm, group, run%plan%nodes%position, task%together)
        call MPI_Comm_rank(task%together, place)
        call MPI_Comm_size(task%together, ranks)
        new%number = place
        new%ranks = ranks
        others = run%plan%ranks - ranks
        new%theirs = new_set(run, round, merge(0, 1 - group, others == 0), ranks)
        new%mine = new_set(run, round, group, merge(ranks, others, others == 0))
        if (run%plan%nodes%nodes > 1 .and. new%theirs%directory /= new%mine%directory) then
            new%witness%other_node_byte_fraction = 1
        end if
        new%from_other_nodes = new%witness%other_node_byte_fraction
        new%confirms = place
        allocate (new%state(0), new%opened(0))
        if (run%place%is_node_local .and. run%plan%nodes%nodes > 1) call new%error%set(exit_io, &
            '--dir', run%place%path, 'each node has storage of its own there, and ranks read ' &
            //'what another node has made')
        new%to = new%theirs%set%samples
        if (run%choice%operations(1) == 'samples') then
            new%from = place*int(run%choice%items, int64)
            new%to = new%from + run%choice%items
        end if
        if (new%theirs%set%shared > 0) call deal(run, new)
        task%path = new%mine%directory
        task%writes = .true.
        task%share = run%plan%write_share
        new%task = task
        new%task%watchdog = new_guard(run, new, writes=.true.)
    end function new_round

    !> Makes a watchdog. After a hang the files of a checkpoint are removed; others are too many.
    function new_guard(run, this, writes) result(guard)
        type(run_result), intent(in) :: run
        type(learning_round), intent(in) :: this
        logical, intent(in) :: writes               !! this rank's files
        type(watchdog) :: guard

        character(:), allocatable :: first, names
        integer(int64) :: file

        names = ''
        associate (set => this%mine%set)
            do file = this%number, set%files - 1, this%ranks
                if (set%shared > 0) names = names//path_in_set(set, this%mine%directory, file) &
                    //c_null_char
            end do
            first = path_in_set(set, this%mine%directory, this%number)
            if (.not. writes) first = ''
            guard = new_watchdog(run%choice%phase_limit, run%plan%rank, '', &
                run%place%run_path, this%mine%directory//c_null_char//run%place%directories(), &
                written=first, bytes=file_bytes(set, this%number), earlier=names)
        end associate
    end function new_guard

    !> Deals what all ranks write of a checkpoint to those that read and confirm it. Collective.
    subroutine deal(run, this)
        type(run_result), intent(in) :: run
        type(learning_round), intent(inout) :: this

        real(real64) :: afar(2)             !! parts of all ranks, whose state is read and confirmed
        integer(int64) :: first, half, i, of_rank, readable
        integer :: on_node, place

        of_rank = this%theirs%set%samples/this%ranks
        this%confirms = mod(this%number + this%ranks/2, this%ranks)
        readable = 0
        ! Nobody reads on from one half into the other: it may be on the reader's own node. An odd
        ! number of ranks has no halves.
        half = merge(this%ranks, this%ranks/2, mod(this%ranks, 2_int64) == 1)
        if (mod(mod(this%number, half), 2_int64) == 0) then
            readable = min(2_int64, half - mod(this%number, half))
        end if
        this%from = of_rank*this%confirms
        this%to = this%from + of_rank*readable
        call MPI_Comm_rank(run%plan%nodes%on_node, place)
        call MPI_Comm_size(run%plan%nodes%on_node, on_node)
        first = this%number - place
        afar(1) = count([(is_afar(this%confirms + i), i=0, readable - 1)])
        afar(2) = merge(1, 0, is_afar(this%confirms))
        call MPI_Allreduce(MPI_IN_PLACE, afar, 2, MPI_DOUBLE_PRECISION, MPI_SUM, run%plan%comm)
        this%from_other_nodes = afar(1)/this%ranks
        this%witness%other_node_byte_fraction = afar(2)/this%ranks

    contains

        pure logical function is_afar(writer)
            integer(int64), intent(in) :: writer

            associate (at => mod(writer, this%ranks))
                is_afar = at < first .or. at >= first + on_node
            end associate
        end function is_afar

    end subroutine deal

    !> Returns the half that this rank is in, 0 or 1: of the nodes, in their order; of the ranks of
    !> a single node. For a checkpoint, all are in one.
    integer function half_of(run)
        type(run_result), intent(in) :: run

        integer :: on_node, place

        on_node = 0
        place = 0
        if (run%plan%nodes%nodes > 1) then
            call MPI_Comm_rank(run%plan%nodes%on_node, place)
            call MPI_Comm_size(run%plan%nodes%on_node, on_node)
        end if
        ! What has its middle in the second half of the ranks.
        half_of = merge(1, 0, 2*(run%plan%nodes%position - place) + on_node >= run%plan%ranks &
            .and. run%choice%operations(1) /= 'checkpoint')
    end function half_of

    type(shared_set) function new_set(run, round, group, readers) result(new)
        type(run_result), intent(in) :: run
        integer, intent(in) :: round, group, readers

        character(:), allocatable :: operation

        operation = trim(run%choice%operations(1))
        new%set = new_file_set(run%choice, readers)
        new%set%key = pattern_key(run%choice%run_id, operation, group, round)
        new%order = pattern_key(run%choice%run_id, 'order', group, round)
        ! A client may still know the old one of a directory that was removed and made again.
        new%directory = run%place%run_path//'/'//operation//'.round'//decimal(round)//'.' &
            //decimal(group)
    end function new_set

    !> Makes the files and forces them to stable storage. Collective.
    subroutine make_files(run, this)
        type(run_result), intent(in) :: run
        type(learning_round), intent(inout) :: this

        character(:), allocatable :: message

        if (this%error%failed()) return
        associate (mine => this%mine, task => this%task, error => this%error)
            call task%watchdog%watch('make the directories')
            if (this%number == 0) then
                call attempt(make_directory, mine%directory, message)
                if (message /= '') call error%set(exit_io, 'mkdir', mine%directory, message)
            end if
            call agree_watched(task%watchdog, task%comm, error)
            if (error%failed()) return
            if (mine%set%shared > 0) then
                call write_state(run, this)
            else
                call task%watchdog%watch('write the files')
                call act(this, do_write, mine, this%number)
                call agree_watched(task%watchdog, task%comm, error)
                if (.not. error%failed()) then
                    call task%watchdog%watch('sync')
                    message = ''
                    if (run%plan%nodes%is_leader) call attempt(sync_all, mine%directory, message)
                    if (message /= '') call error%set(exit_io, 'syncfs', mine%directory, message)
                    call agree_watched(task%watchdog, task%comm, error)
                end if
            end if
            call diagnose_write(task, error)
            if (error%failed() .or. run%completed > 0) return
            call task%watchdog%watch('look at the layout')
            if (run%plan%rank == 0) call check_layout(run%place%keeper, path_in_set(mine%set, &
                mine%directory, 0_int64), file_bytes(mine%set, 0_int64), &
                run%place%targets(1)%request, this%seen, error)
            call agree_watched(task%watchdog, task%comm, error)
        end associate
    end subroutine make_files

    !> Writes a checkpoint under the clock, and forces it to stable storage. Collective.
    subroutine write_state(run, this)
        type(run_result), intent(in) :: run
        type(learning_round), intent(inout) :: this

        integer(c_int32_t), parameter :: actions(*) = [do_make, do_put, do_close]
        integer, parameter :: phases(*) = [phase_open, phase_write, phase_close]
        integer(int64) :: bytes, files
        integer :: code, i

        associate (mine => this%mine, task => this%task, error => this%error)
            files = mine%set%samples/this%ranks
            bytes = files*mine%set%sample_bytes
            deallocate (this%opened, this%state)
            allocate (this%opened(files), source=-1_c_int)
            allocate (this%state(bytes), stat=code)
            if (code /= 0) call error%set(exit_internal, 'allocate', mine%directory, &
                'no memory for a state of '//decimal(bytes)//' bytes')
            if (code == 0) call c_make_state(mine%set, this%number, this%state)
            call agree_watched(task%watchdog, task%comm, error)
            if (error%failed()) return
            call begin_operation(task)
            do i = 1, size(actions)
                call begin_phase(task, phases(i))
                call act(this, actions(i), mine, this%number)
                call end_phase(task, phases(i), .true., task%comm, error)
                if (error%failed()) exit
            end do
            if (.not. error%failed()) then
                call end_span(task, phase_total, phase_open, phase_close)
                call task%watchdog%watch('open to sync')
                call act(this, do_open, mine, this%number)
                call begin_phase(task, phase_sync)
                if (.not. error%failed()) call act(this, do_fsync, mine, this%number)
                call end_phase(task, phase_sync, .true., task%comm, error)
                call end_span(task, phase_stable, phase_total, phase_sync)
            end if
            call act(this, do_close, mine, this%number)
            deallocate (this%state)
            allocate (this%state(0))
            call agree_watched(task%watchdog, task%comm, error)
            if (error%failed()) return
            call summarise(task%times, task%share, run%plan, this%written, bytes)
            task%times = stopwatch()
        end associate
    end subroutine write_state

    !> Has the kernel of each node forget what was written there. Collective.
    subroutine forget(run, this)
        type(run_result), intent(in) :: run
        type(learning_round), intent(inout) :: this

        type(shared_set) :: shards
        integer(int64) :: kept(2), total            ! bytes: in memory, and still to be written

        if (this%error%failed()) return
        call this%task%watchdog%watch('posix_fadvise')
        shards = this%mine
        if (shards%set%shared > 0) then
            ! Pages stay that two ranks want forgotten at once: one of each node has to ask.
            shards%set%shared = 0
            shards%set%files = shards%set%files - 1
            shards%set%samples = shards%set%files
        end if
        call act(this, do_forget, shards, this%number)
        kept = [this%seen_last%in_memory, this%seen_last%unsynced]
        if (this%mine%set%shared > 0 .and. run%plan%nodes%is_leader) then
            call act(this, do_forget, this%mine, shards%set%files, 1_int64)
            associate (more => [this%seen_last%in_memory, this%seen_last%unsynced])
                kept = merge(-1_int64, kept + more, kept < 0 .or. more < 0)
            end associate
        end if
        call agree_watched(this%task%watchdog, this%task%comm, this%error)
        if (this%error%failed()) return
        total = 0
        if (this%number == 0) total = file_set_bytes(this%mine%set)
        call MPI_Allreduce(total, this%bytes, 1, MPI_INT64_T, MPI_SUM, run%plan%comm)
        this%page_cache_fraction = known_fraction(fraction_in_memory(kept(1), this%bytes, &
            run%plan%comm), this%from_other_nodes, run%place%mounted%magic)
        this%witness%unsynced_fraction = fraction_in_memory(kept(2), this%bytes, run%plan%comm)
    end subroutine forget

    !> Reads what is this rank's, under the clock, and then compares it. Collective.
    subroutine read_samples(run, this)
        type(run_result), intent(in) :: run
        type(learning_round), intent(inout) :: this

        integer(int8), allocatable :: buffer(:)
        integer(int64), allocatable :: digests(:)
        integer(int64) :: marks(2)                      ! of what was read, and of all samples
        integer :: code

        if (this%error%failed()) return
        associate (task => this%task, theirs => this%theirs, error => this%error)
            allocate (digests(this%to - this%from), source=0_int64)
            allocate (buffer(largest_sample(theirs%set)), source=-1_int8, stat=code)
            if (code /= 0) call error%set(exit_internal, 'allocate', theirs%directory, &
                'no memory for a sample of '//decimal(largest_sample(theirs%set))//' bytes')
            call agree_watched(task%watchdog, task%comm, error)
            if (error%failed()) return
            call begin_operation(task)
            call begin_phase(task, phase_read)
            call read_timed(this, buffer, digests)
            call end_phase(task, phase_read, this%to > this%from, task%comm, error)
            call end_span(task, phase_total, phase_read, phase_read)
            if (error%failed()) return
            call task%watchdog%watch('compare')
            call compare(this, buffer, digests, marks(1))
            call agree_watched(task%watchdog, task%comm, error)
            if (error%failed()) return
            ! Each rank is to have read a whole tree; of samples, all ranks together.
            marks(2) = marks_of_samples(theirs%set, 0_int64, theirs%set%samples)
            if (run%choice%operations(1) /= 'startup' .and. this%number > 0) marks(2) = 0
            call MPI_Allreduce(MPI_IN_PLACE, marks, 2, MPI_INT64_T, MPI_SUM, run%plan%comm)
            if (marks(1) /= marks(2)) call error%set(exit_internal, 'read', theirs%directory, &
                'the order in which samples are read has one twice, or leaves one out')
            call agree_watched(task%watchdog, task%comm, error)
        end associate
    end subroutine read_samples

    subroutine read_timed(this, buffer, digests)
        type(learning_round), intent(inout) :: this
        integer(c_int8_t), intent(inout) :: buffer(:)
        integer(c_int64_t), intent(inout) :: digests(:)

        character(:), allocatable :: message
        integer(int64) :: place
        type(sight) :: seen

        associate (theirs => this%theirs)
            message = text_of(c_read(theirs%set, theirs%directory//c_null_char, theirs%order, &
                this%from, this%to, buffer, digests, this%task%times%part_seconds(part_stat:), &
                place, seen%fault))
            if (message == '' .and. seen%fault == 0) return
            seen%file = file_of(theirs%set, sample_at(theirs%set, theirs%order, place))
            call note(this%error, 'read', theirs, seen, message)
        end associate
    end subroutine read_timed

    !> Compares what was read with what was written.
    subroutine compare(this, buffer, digests, marks)
        type(learning_round), intent(inout) :: this
        integer(c_int8_t), intent(inout) :: buffer(:)
        integer(c_int64_t), intent(in) :: digests(:)
        integer(int64), intent(out) :: marks        !! of the samples that were read

        integer(int64) :: place, sample
        type(sight) :: seen

        associate (theirs => this%theirs, set => this%theirs%set)
            if (c_compare(set, theirs%order, this%from, this%to, buffer, digests, place, &
                marks) /= 0) then
                sample = sample_at(set, theirs%order, place)
                seen%fault = fault_of_content
                seen%file = file_of(set, sample)
                seen%byte = c_difference(set, theirs%directory//c_null_char, seen%file)
                if (set%sample_bytes > 0 .and. set%shared == 0) then
                    call note(this%error, 'read', theirs, seen, '', ' in sample ' &
                        //decimal(mod(sample, set%per_file)))
                else
                    call note(this%error, 'read', theirs, seen, '')
                end if
            end if
            this%moved = set%sample_bytes*(this%to - this%from)
            if (set%sample_bytes == 0) this%moved = file_set_bytes(set)
        end associate
    end subroutine compare

    !> Has every byte of every file confirmed, by a rank of the team that has read it. Collective.
    subroutine confirm(run, this)
        type(run_result), intent(in) :: run
        type(learning_round), intent(inout) :: this

        if (this%error%failed()) return
        call this%task%watchdog%watch('witness')
        call act(this, do_confirm, this%theirs, this%confirms)
        call agree_watched(this%task%watchdog, this%task%comm, this%error)
        if (this%error%failed()) return
        associate (seen => this%seen_last)
            call MPI_Allreduce(seen%confirmed, this%witness%bytes, 1, MPI_INT64_T, MPI_SUM, &
                run%plan%comm)
            this%witness%page_cache_fraction = fraction_in_memory(seen%in_memory, this%bytes, &
                run%plan%comm)
        end associate
    end subroutine confirm

    !> Removes the files, unless they are evidence, and the directories. Collective.
    subroutine remove_all(run, this)
        type(run_result), intent(in) :: run
        type(learning_round), intent(inout) :: this

        character(:), allocatable :: message

        associate (mine => this%mine, task => this%task, error => this%error)
            if (error%status == exit_verification .and. this%bytes <= run%choice%keep_corrupt) then
                error%message = error%message//'; kept: '//run%place%run_path
                if (run%plan%rank == 0) call write_file(run%place%run_path//'/'//evidence_name, &
                    error%line()//new_line('a'), message)
            else
                call task%watchdog%watch('remove the files')
                if (error%failed()) call task%watchdog%watch_failed(error, is_agreed=.true.)
                call act(this, do_unlink, mine, this%number)
                call agree_watched(task%watchdog, task%comm, error)
                call task%watchdog%watch('remove the directories')
                if (this%number == 0) then
                    message = text_of(c_remove_directories(mine%set, mine%directory//c_null_char))
                    if (message /= '') call error%set(exit_io, 'rmdir', mine%directory, message)
                end if
                call agree_watched(task%watchdog, task%comm, error)
            end if
            call MPI_Comm_free(task%together)
        end associate
    end subroutine remove_all

    !> Does something to the files of a rank, and notes how it failed.
    subroutine act(this, action, which, from, step)
        type(learning_round), intent(inout) :: this
        integer(c_int32_t), intent(in) :: action
        type(shared_set), intent(in) :: which
        integer(int64), intent(in) :: from          !! the rank's place, or the first file
        integer(int64), intent(in), optional :: step    !! to the next; else all have some

        character(:), allocatable :: message
        integer(int64) :: stride

        stride = this%ranks
        if (present(step)) stride = step
        message = text_of(c_act(action, which%set, which%directory//c_null_char, from, stride, &
            this%opened, this%state, this%seen_last))
        call note(this%error, trim(calls(action)), which, this%seen_last, message)
    end subroutine act

    !> Notes an I/O error, or what a file or its content has wrong.
    subroutine note(error, call, which, seen, message, where)
        type(failure), intent(inout) :: error
        character(*), intent(in) :: call
        type(shared_set), intent(in) :: which
        type(sight), intent(in) :: seen
        character(*), intent(in) :: message         !! empty: there is no I/O error
        character(*), intent(in), optional :: where     !! in the file

        character(:), allocatable :: path, text

        path = path_in_set(which%set, which%directory, seen%file)
        if (message /= '') then
            call error%set(exit_io, call, path, message)
        else if (seen%fault > 0) then
            text = trim(faults(seen%fault))
            if (present(where)) text = text//where
            if (seen%fault == fault_of_content) then
                if (seen%byte >= 0) text = text//'; its first wrong byte is '//decimal(seen%byte)
                if (seen%byte < 0) text = text//'; a second read has met no difference'
            end if
            call error%set(exit_verification, call, path, text)
        end if
    end subroutine note

end module benchio_learning
