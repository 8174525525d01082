!> Names instead of bytes: one round of `--operation metadata`.
!>
!> Every rank makes directories and small files, in one directory that all share or in one of its
!> own. Its partner, on another node if there is one, looks at each (stat), and directories are
!> listed; then each rank gives its files other names, its partner opens and reads them by those,
!> and they and the directories are removed. Each of these is a phase that begins on all ranks
!> together, and its rate is the number of operations of all ranks over its window.
!>
!> The law holds here as for data. A rate exists only if every name was seen to be there once, as a
!> regular file of its size and with the content that only this rank, round and run can have given
!> it, by another rank than its maker; and was seen to be gone after it was renamed or removed.
!> Where names must be and where they must not, directories are read anew each time.
module benchio_metadata
    use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int32_t, c_int64_t, c_int8_t, &
        c_null_char
    use, intrinsic :: iso_fortran_env, only: int64, int8
    use mpi_f08, only: MPI_Allreduce, MPI_BXOR, MPI_Comm_size, MPI_INT64_T, MPI_SUM
    use benchio_failure, only: exit_internal, exit_io, exit_verification, failure
    use benchio_file_layout, only: check_layout, file_layout
    use benchio_file_task, only: agree_watched, begin_operation, begin_phase, end_operation, &
        file_task
    use benchio_options, only: given_options, leave_array_out, operation_word, options
    use benchio_pattern, only: pattern_key
    use benchio_phases, only: phase_create, phase_list, phase_mkdir, phase_names, phase_read, &
        phase_rename, phase_rmdir, phase_stat, phase_sync, phase_unlink, summarise
    use benchio_posix, only: attempt, fortran_text, make_directory, remove_directory, sync_all, &
        text_of
    use benchio_registry, only: backend_item
    use benchio_report, only: lf
    use benchio_result, only: measured_rounds, new_repetition, operation, repetition, run_result, &
        turn_of_round
    use benchio_statistics, only: median
    use benchio_text, only: decimal
    use benchio_watchdog, only: new_watchdog
    implicit none (type, external)
    private

    type, extends(operation), public :: metadata_operation
    contains
        procedure, nopass :: words
        procedure, nopass :: settle
        procedure, nopass :: plan
        procedure :: do_round
        procedure, nopass :: says
        procedure, nopass :: table
    end type metadata_operation

    !> As metadata.c numbers them: what is done, and what is found wrong.
    integer(c_int32_t), parameter :: do_mkdir = 1, do_create = 2, do_stat = 3, do_rename = 4, &
        do_read = 5, do_unlink = 6, do_rmdir = 7, see_gone = 8, do_clear = 9
    character(*), parameter :: faults(5) = [character(52) :: 'it is missing', &
        'it is no regular file', 'it has not the size that its maker gave it', &
        'it has not the content that its maker gave it', 'it is still there']

    !> A directory, a file by its first name, and by its second.
    character(1), parameter :: kinds(3) = ['d', 'f', 'g']
    integer, parameter :: kind_directory = 1, kind_first = 2, kind_second = 3

    integer, parameter :: name_size = 256

    !> Names that are looked for at a time once a listing is wrong: one byte each.
    integer(int64), parameter :: names_at_once = 2_int64**24

    !> Whose names a rank is at: its, or its partner's.
    type :: names
        character(:), allocatable :: directory      !! that they are in
        integer :: rank = 0                         !! who made them
        integer(int64) :: key = 0                   !! of their content
        ! All names that are in the directory, once they are all there:
        integer :: first = 0, ranks = 1             !! whose they may be
        integer :: makers = 1                       !! how many ranks have some
        integer(int64) :: hashes(3) = 0             !! of each kind, by exclusive or
    end type names

    !> A round as this rank has it.
    type :: names_round
        type(file_task) :: task
        type(names) :: mine, partners
        type(failure) :: error
        type(file_layout) :: seen                   !! of a file, on rank 0 in the first round
        integer(int64) :: listed = 0                !! entries, by this rank
        logical :: has_place = .false.              !! it makes a directory for names
        !> It reads and syncs a directory: one of each rank, or for its node the one that all share.
        logical :: lists = .false.
    end type names_round

    interface
        integer(c_int) function c_metadata(action, kind, directory, rank, item, end, key, fault) &
            bind(C, name='benchio_do_to_names')
            import :: c_char, c_int, c_int32_t, c_int64_t
            integer(c_int32_t), value :: action, rank
            character(kind=c_char), value :: kind
            character(kind=c_char), intent(in) :: directory(*)
            integer(c_int64_t), intent(inout) :: item
            integer(c_int64_t), value :: end, key
            integer(c_int32_t), intent(out) :: fault
        end function c_metadata

        integer(c_int64_t) function c_metadata_bytes(items) bind(C, name='benchio_metadata_bytes')
            import :: c_int64_t
            integer(c_int64_t), value :: items
        end function c_metadata_bytes

        subroutine c_hashes(rank, items, hashes) bind(C, name='benchio_metadata_hashes')
            import :: c_int32_t, c_int64_t
            integer(c_int32_t), value :: rank
            integer(c_int64_t), value :: items
            integer(c_int64_t), intent(out) :: hashes(3)
        end subroutine c_hashes

        integer(c_int) function c_list(directory, first, ranks, items, from, many, seen, counts, &
            hashes, stranger, size) bind(C, name='benchio_metadata_list')
            import :: c_char, c_int, c_int32_t, c_int64_t, c_int8_t
            character(kind=c_char), intent(in) :: directory(*)
            integer(c_int32_t), value :: first, ranks, from, many, size
            integer(c_int64_t), value :: items
            integer(c_int8_t), intent(inout) :: seen(*)
            integer(c_int64_t), intent(out) :: counts(3), hashes(3)
            character(kind=c_char), intent(out) :: stranger(*)
        end function c_list
    end interface

contains

    function words()
        type(operation_word), allocatable :: words(:)

        words = [operation_word('metadata', 'metadata: no array, but many small files and ' &
            //'directories, which are made, found, renamed and removed', '--items')]
    end function words

    subroutine settle(choice, given)
        type(options), intent(inout) :: choice
        type(given_options), intent(inout) :: given

        call leave_array_out(choice, given)
        call given%refuse(all(choice%files /= [character(7) :: 'shared', 'process']), &
            '--operation metadata takes --files shared or process, not "'//choice%files//'"')
    end subroutine settle

    subroutine plan(run)
        type(run_result), intent(inout) :: run

        associate (items => int(run%choice%items, int64), ranks => run%plan%ranks)
            run%bytes = ranks*c_metadata_bytes(items)
            run%blocks = 2*items*ranks
        end associate
    end subroutine plan

    function says(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        text = decimal(run%plan%ranks)//' ranks, each with '//decimal(run%choice%items) &
            //' directories and files in '//trim(merge('one directory for all ', &
            'a directory of its own', run%choice%files == 'shared'))
    end function says

    !> Returns a line per phase: operations a second of all ranks together.
    function table(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        integer, parameter :: order(*) = [phase_mkdir, phase_create, phase_stat, phase_list, &
            phase_rename, phase_read, phase_unlink, phase_rmdir]
        character(48) :: line
        integer :: i

        associate (times => run%records(1, measured_rounds(run, 1))%times)
            text = 'repeats '//decimal(size(times))//lf//lf &
                //'operations/s       min      median         max'//lf
            do i = 1, size(order)
                associate (rate => times%of_phase(order(i))%operations &
                    /times%of_phase(order(i))%window)
                    write (line, '(a10,3f12.1)') phase_names(order(i)), minval(rate), &
                        median(rate), maxval(rate)
                end associate
                text = text//trim(line)//lf
            end do
            write (line, '(f9.4)') median(times%of_phase(phase_sync)%window)
        end associate
        text = text//'sync after create: '//trim(adjustl(line))//' s (median)'//lf//lf &
            //'every name of every round was there once, with its size and content, and then ' &
            //'gone: seen by another rank, '//decimal(nint(100*run%plan%other_node_byte_fraction)) &
            //' % of them on another node'//lf
    end function table

    subroutine do_round(self, run, methods, at)
        class(metadata_operation), intent(inout) :: self
        type(run_result), intent(inout) :: run
        type(backend_item), intent(in), target :: methods(:)
        type(turn_of_round), intent(in) :: at

        integer, parameter :: every(*) = [phase_mkdir, phase_create, phase_stat, phase_rename, &
            phase_read, phase_unlink, phase_rmdir]
        integer(int64) :: all_listed
        type(names_round) :: this
        type(repetition) :: record

        record = new_repetition(run, at)
        this = new_round(run, at%round)
        call make_place(run, this)
        if (.not. this%error%failed()) then
            call use_names(run, this)
            call remove_all(run, this)
        end if
        if (.not. this%error%failed()) then
            call summarise(this%task%times, this%task%share, run%plan, record%times)
            call MPI_Allreduce(this%listed, all_listed, 1, MPI_INT64_T, MPI_SUM, run%plan%comm)
            record%times%of_phase(every)%operations = int(run%choice%items, int64)*run%plan%ranks
            record%times%of_phase(phase_list)%operations = all_listed
            record%witness%names = 2_int64*run%choice%items*run%plan%ranks
            record%witness%bytes = run%bytes
            record%file_bytes = run%bytes
            record%witness%other_node_byte_fraction = run%plan%other_node_byte_fraction
        end if
        call this%task%watchdog%disarm()
        run%error = this%error
        if (run%error%failed() .or. run%plan%rank > 0) return
        if (at%round == 1) run%seen(1, 1)%layout = this%seen
        run%records(1, at%round) = record
    end subroutine do_round

    !> Prepares a round. Collective.
    type(names_round) function new_round(run, round) result(new)
        type(run_result), intent(in) :: run
        integer, intent(in) :: round

        integer(c_int64_t) :: hashes(3)
        integer :: partner
        logical :: is_apart

        is_apart = run%choice%files == 'process'
        ! The number of a file is the rank, and so is the place among those that share one.
        partner = merge(run%plan%read_share%file, run%plan%read_share%position, is_apart)
        new%mine = new_names(run, round, run%plan%rank)
        new%partners = new_names(run, round, partner)
        new%has_place = run%place%is_made_here .or. is_apart
        new%lists = run%plan%nodes%is_leader .or. is_apart

        ! No rank knows the names of all, but their number and hash. On storage of a node's own
        ! there are those of its ranks.
        associate (all_names => new%partners, makers => merge(run%plan%nodes%on_node, &
            run%plan%comm, run%place%is_node_local))
            call c_hashes(int(merge(partner, run%plan%rank, is_apart), c_int32_t), &
                int(run%choice%items, c_int64_t), hashes)
            all_names%hashes = hashes
            all_names%first = partner
            if (.not. is_apart) then
                all_names%first = 0
                all_names%ranks = run%plan%ranks
                call MPI_Comm_size(makers, all_names%makers)
                call MPI_Allreduce(hashes, all_names%hashes, 3, MPI_INT64_T, MPI_BXOR, makers)
            end if
        end associate

        associate (task => new%task)
            task%path = new%mine%directory
            task%share = run%plan%write_share
            task%comm = run%plan%comm
            task%together = run%plan%comm
            ! After a hang only what is empty can be removed: the names are too many.
            task%watchdog = new_watchdog(run%choice%phase_limit, run%plan%rank, '', task%path, &
                task%path//c_null_char//run%place%directories())
        end associate
    end function new_round

    function new_names(run, round, rank) result(new)
        type(run_result), intent(in) :: run
        integer, intent(in) :: round, rank
        type(names) :: new

        character(12) :: number

        new%rank = rank
        new%key = pattern_key(run%choice%run_id, 'metadata', rank, round)
        number = ''
        if (run%choice%files == 'process') write (number, '(".",i0.6)') rank
        ! A client may still know the old one of a directory that was removed and made again.
        new%directory = run%place%run_path//'/metadata.round'//decimal(round)//trim(number)
    end function new_names

    !> Makes the directories that the names will be in, on the right MDT. Collective.
    subroutine make_place(run, this)
        type(run_result), intent(in) :: run
        type(names_round), intent(inout) :: this

        character(:), allocatable :: message
        integer :: mdt

        associate (directory => this%mine%directory)
            call this%task%watchdog%watch('make the directories')
            if (this%has_place) then
                call attempt(make_directory, directory, message)
                if (message /= '') call this%error%set(exit_io, 'mkdir', directory, message)
            end if
            if (run%plan%rank == 0 .and. run%choice%mdt_index >= 0 &
                .and. .not. this%error%failed()) then
                mdt = run%place%keeper%mdt_index(directory)
                if (mdt /= run%choice%mdt_index) call this%error%set(exit_io, 'mkdir', directory, &
                    'the directory is on MDT '//decimal(mdt)//', asked for: ' &
                    //decimal(run%choice%mdt_index))
            end if
            call agree_watched(this%task%watchdog, this%task%comm, this%error)
            if (this%error%failed() .and. this%has_place) then
                call attempt(remove_directory, directory, message)
            end if
        end associate
    end subroutine make_place

    !> Removes the directories, which are empty by then; after a failure first what may be left of
    !> this rank's names. Collective.
    subroutine remove_all(run, this)
        type(run_result), intent(in) :: run
        type(names_round), intent(inout) :: this

        character(:), allocatable :: message
        type(failure) :: ignored

        if (this%error%failed()) then
            call this%task%watchdog%watch_failed(this%error, is_agreed=.true.)
            call act(run, do_clear, kind_directory, this%mine, 'clear', ignored)
            call agree_watched(this%task%watchdog, this%task%comm, this%error)
        end if
        call this%task%watchdog%watch('remove the directories')
        message = ''
        if (this%has_place) call attempt(remove_directory, this%mine%directory, message)
        if (message /= '') call this%error%set(exit_io, 'rmdir', this%mine%directory, message)
        call agree_watched(this%task%watchdog, this%task%comm, this%error)
    end subroutine remove_all

    !> Goes through all phases of a round, and what has to be seen between them. Collective.
    subroutine use_names(run, this)
        type(run_result), intent(in) :: run
        type(names_round), intent(inout) :: this

        logical, parameter :: directories_and_first(3) = [.true., .true., .false.], &
            directories_and_second(3) = [.true., .false., .true.], &
            directories(3) = [.true., .false., .false.], nothing(3) = .false.

        call timed(phase_mkdir, do_mkdir, kind_directory, this%mine)
        call timed(phase_create, do_create, kind_first, this%mine)
        if (begins(phase_sync)) then
            if (this%lists) call sync(this)
            call end_operation(this%task, phase_sync, this%lists, this%error)
        end if
        call timed(phase_stat, do_stat, kind_first, this%partners)
        if (begins(phase_list)) then
            call list(run, this, directories_and_first, this%listed)
            call end_operation(this%task, phase_list, this%lists, this%error)
        end if
        if (run%completed == 0 .and. .not. this%error%failed()) then
            call this%task%watchdog%watch('look at the layout')
            if (run%plan%rank == 0) call check_layout(run%place%keeper, path_of( &
                this%mine%directory, kind_first, 0, 0_int64), 8_int64, &
                run%place%targets(1)%request, this%seen, this%error)
            call agree_watched(this%task%watchdog, this%task%comm, this%error)
        end if
        call timed(phase_rename, do_rename, kind_first, this%mine)
        call timed(phase_read, do_read, kind_second, this%partners)
        call see(kind_first, directories_and_second)
        call timed(phase_unlink, do_unlink, kind_second, this%mine)
        call see(kind_second, directories)
        call timed(phase_rmdir, do_rmdir, kind_directory, this%mine)
        call see(kind_directory, nothing)

    contains

        !> Begins a phase of its own, unless something has failed already.
        logical function begins(phase)
            integer, intent(in) :: phase

            begins = .not. this%error%failed()
            if (.not. begins) return
            call begin_operation(this%task)
            call begin_phase(this%task, phase)
        end function begins

        subroutine timed(phase, action, kind, whose)
            integer, intent(in) :: phase, kind
            integer(c_int32_t), intent(in) :: action
            type(names), intent(in) :: whose

            if (.not. begins(phase)) return
            call act(run, action, kind, whose, trim(phase_names(phase)), this%error)
            call end_operation(this%task, phase, .true., this%error)
        end subroutine timed

        !> Sees outside the clock that names of a kind are gone: in a list, and by their partner.
        subroutine see(gone, there)
            integer, intent(in) :: gone
            logical, intent(in) :: there(3)         !! the names of each kind

            integer(int64) :: ignored

            if (this%error%failed()) return
            call this%task%watchdog%watch('see what is listed')
            call list(run, this, there, ignored)
            call agree_watched(this%task%watchdog, this%task%comm, this%error)
            if (this%error%failed()) return
            call this%task%watchdog%watch('see what is gone')
            call act(run, see_gone, gone, this%partners, 'lstat', this%error)
            call agree_watched(this%task%watchdog, this%task%comm, this%error)
        end subroutine see

    end subroutine use_names

    !> Does one thing to all names of one kind of a rank.
    subroutine act(run, action, kind, whose, call, error)
        type(run_result), intent(in) :: run
        integer(c_int32_t), intent(in) :: action
        integer, intent(in) :: kind
        type(names), intent(in) :: whose
        character(*), intent(in) :: call
        type(failure), intent(inout) :: error

        character(:), allocatable :: message
        integer(c_int64_t) :: item
        integer(c_int32_t) :: fault

        item = 0
        message = text_of(c_metadata(action, kinds(kind), whose%directory//c_null_char, &
            int(whose%rank, c_int32_t), item, int(run%choice%items, c_int64_t), whose%key, fault))
        if (message /= '') then
            call error%set(exit_io, call, path_of(whose%directory, kind, whose%rank, item), message)
        else if (fault > 0) then
            call error%set(exit_verification, call, path_of(whose%directory, kind, whose%rank, &
                item), trim(faults(fault)))
        end if
    end subroutine act

    pure function path_of(directory, kind, rank, item) result(path)
        character(*), intent(in) :: directory
        integer, intent(in) :: kind, rank
        integer(int64), intent(in) :: item
        character(:), allocatable :: path

        character(32) :: name

        write (name, '(a1,i0.6,".",i0.7)') kinds(kind), rank, item
        path = directory//'/'//trim(name)
    end function path_of

    !> Forces to stable storage what this rank's node holds, and the directory with the names in it.
    subroutine sync(this)
        type(names_round), intent(inout) :: this

        character(:), allocatable :: message

        call attempt(sync_all, this%mine%directory, message)
        if (message /= '') call this%error%set(exit_io, 'fsync', this%mine%directory, message)
    end subroutine sync

    !> Reads a directory: of each kind all names must be there once, or none. Their number and hash
    !> tell. Only if these are wrong the directory is read again, to find the name that is.
    subroutine list(run, this, there, entries)
        type(run_result), intent(in) :: run
        type(names_round), intent(inout) :: this
        logical, intent(in) :: there(3)             !! the names of each kind
        integer(int64), intent(out) :: entries

        integer(int64) :: counts(3), hashes(3)
        integer(int8) :: nothing(1)

        entries = 0
        if (.not. this%lists) return
        associate (partners => this%partners)
            call read_directory(run, this, 0, 0, nothing, counts, hashes)
            entries = sum(counts)
            if (this%error%failed()) return
            if (any(counts /= merge(partners%makers*int(run%choice%items, int64), 0_int64, there)) &
                .or. any(hashes /= merge(partners%hashes, 0_int64, there))) then
                call find_wrong_name(run, this, there)
            end if
        end associate
    end subroutine list

    !> Reads a directory once, and notes a failure if it has a name that nobody has made.
    subroutine read_directory(run, this, from, many, times, counts, hashes)
        type(run_result), intent(in) :: run
        type(names_round), intent(inout) :: this
        integer, intent(in) :: from, many           !! ranks whose names are counted one by one
        integer(int8), intent(inout) :: times(*)    !! (item, rank, kind): listed, to 2 at most
        integer(int64), intent(out) :: counts(3), hashes(3)     !! of each kind

        character(kind=c_char) :: stranger(name_size)
        character(:), allocatable :: message

        associate (partners => this%partners)
            message = text_of(c_list(partners%directory//c_null_char, &
                int(partners%first, c_int32_t), int(partners%ranks, c_int32_t), &
                int(run%choice%items, c_int64_t), int(from, c_int32_t), int(many, c_int32_t), &
                times, counts, hashes, stranger, int(name_size, c_int32_t)))
            if (message /= '') then
                call this%error%set(exit_io, 'readdir', partners%directory, message)
            else if (stranger(1) /= c_null_char) then
                call this%error%set(exit_verification, 'readdir', partners%directory//'/' &
                    //fortran_text(stranger), 'nobody has made it')
            end if
        end associate
    end subroutine read_directory

    !> Finds the first name that a listing has not once, or has though it is to be gone. Reads the
    !> directory for a part of the ranks at a time.
    subroutine find_wrong_name(run, this, there)
        type(run_result), intent(in) :: run
        type(names_round), intent(inout) :: this
        logical, intent(in) :: there(3)             !! the names of each kind

        character(:), allocatable :: message
        integer(int64) :: ignored(3, 2)
        integer(int8), allocatable :: times(:, :, :)
        integer :: at, code, first, from, kind, many, rank, wanted

        many = int(max(1_int64, names_at_once/(3_int64*run%choice%items)))
        do from = 0, this%partners%ranks - 1, many
            many = min(many, this%partners%ranks - from)
            first = this%partners%first + from
            allocate (times(run%choice%items, first:first + many - 1, 3), source=0_int8, stat=code)
            if (code /= 0) then
                call this%error%set(exit_internal, 'allocate', this%partners%directory, &
                    'no memory to look for the name that is wrong')
                return
            end if
            call read_directory(run, this, from, many, times, ignored(:, 1), ignored(:, 2))
            do kind = 1, 3
                do rank = first, first + many - 1
                    if (this%error%failed()) return
                    wanted = merge(1, 0, there(kind) .and. is_here(rank))
                    at = findloc(int(times(:, rank, kind)) == wanted, .false., 1)
                    if (at == 0) cycle
                    message = 'it is listed twice'
                    if (times(at, rank, kind) == 0) message = 'it is not listed'
                    if (wanted == 0) message = 'it is still listed'
                    call this%error%set(exit_verification, 'readdir', path_of( &
                        this%partners%directory, kind, rank, at - 1_int64), message)
                end do
            end do
            deallocate (times)
        end do
        if (.not. this%error%failed()) call this%error%set(exit_verification, 'readdir', &
            this%partners%directory, 'a list had too many names or too few, and a second one not')

    contains

        !> Says whether a rank's names are to be seen from here.
        pure logical function is_here(rank)
            integer, intent(in) :: rank

            is_here = .not. run%place%is_node_local
            if (.not. is_here) is_here = any(run%plan%nodes%ranks%has(rank))
        end function is_here

    end subroutine find_wrong_name

end module benchio_metadata
