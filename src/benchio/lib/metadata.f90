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
    use mpi_f08, only: MPI_Allreduce, MPI_INT64_T, MPI_SUM
    use benchio_failure, only: exit_io, exit_verification, failure
    use benchio_file_layout, only: check_layout
    use benchio_pattern, only: pattern_key
    use benchio_file_task, only: agree_watched, begin_operation, begin_phase, end_operation, &
        file_task
    use benchio_phases, only: phase_create, phase_list, phase_mkdir, phase_names, phase_read, &
        phase_rename, phase_rmdir, phase_stat, phase_sync, phase_unlink, stopwatch, summarise
    use benchio_posix, only: fortran_text, make_directory, remove_directory, text_of, utc_now
    use benchio_result, only: repetition, run_result
    use benchio_text, only: decimal
    use benchio_watchdog, only: new_watchdog
    implicit none (type, external)
    private

    public :: metadata_bytes, metadata_room, run_metadata

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

    !> Whose names a rank is at: its own, or its partner's.
    type :: names
        character(:), allocatable :: directory      !! that they are in
        integer :: rank = 0                         !! who made them
        integer(int64) :: key = 0                   !! of their content
    end type names

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

        integer(c_int) function c_list(directory, first, ranks, items, seen, stranger, size, &
            entries) bind(C, name='benchio_metadata_list')
            import :: c_char, c_int, c_int32_t, c_int64_t, c_int8_t
            character(kind=c_char), intent(in) :: directory(*)
            integer(c_int32_t), value :: first, ranks, size
            integer(c_int64_t), value :: items
            integer(c_int8_t), intent(inout) :: seen(*)
            character(kind=c_char), intent(out) :: stranger(*)
            integer(c_int64_t), intent(out) :: entries
        end function c_list

        integer(c_int) function c_sync(directory) bind(C, name='benchio_metadata_sync')
            import :: c_char, c_int
            character(kind=c_char), intent(in) :: directory(*)
        end function c_sync
    end interface

contains

    !> What the small files of all ranks hold together, bytes.
    integer(int64) function metadata_bytes(items, ranks)
        integer, intent(in) :: items                !! of each rank
        integer, intent(in) :: ranks

        metadata_bytes = ranks*c_metadata_bytes(int(items, c_int64_t))
    end function metadata_bytes

    !> What they may take on the filesystem: files and directories have at least a block each.
    pure integer(int64) function metadata_room(items, ranks, block_bytes)
        integer, intent(in) :: items                !! of each rank
        integer, intent(in) :: ranks
        integer(int64), intent(in) :: block_bytes

        metadata_room = 2_int64*items*ranks*max(1_int64, min(block_bytes, 65536_int64))
    end function metadata_room

    !> Collective: one round. After a failure nothing of it is left that can be removed.
    subroutine run_metadata(run, round, position)
        type(run_result), intent(inout) :: run
        integer, intent(in) :: round, position

        type(file_task) :: task
        type(names) :: own, partners
        type(repetition) :: record
        type(stopwatch) :: times
        integer(int64) :: listed
        logical :: makes

        record%round = round
        record%position = position
        record%is_warmup = round <= run%choice%warmup
        record%started = utc_now()
        own = new_names(run, round, run%plan%rank)
        partners = new_names(run, round, partner_of(run))
        task = new_task(run, own)
        makes = run%place%is_made_here .or. run%choice%files == 'process'
        call make_place(run, task, own, makes)
        if (.not. run%error%failed()) then
            call use_names(run, task, own, partners, times, listed)
            if (run%error%failed()) call clear(run, task, own)
            call remove_place(run, task, own, makes)
        end if
        if (.not. run%error%failed()) then
            call summarise(times, task%share, run%groups, record%times)
            call count_operations(run, listed, record)
            record%witness%names = 2_int64*run%choice%items*run%plan%ranks
            record%witness%bytes = run%bytes
            record%file_bytes = run%bytes
            record%witness%other_node_byte_fraction = run%plan%other_node_byte_fraction
            if (run%plan%rank == 0) run%records(1, round) = record
        end if
        call task%watchdog%disarm()
    end subroutine run_metadata

    function new_names(run, round, rank) result(new)
        type(run_result), intent(in) :: run
        integer, intent(in) :: round, rank
        type(names) :: new

        character(8) :: number

        new%rank = rank
        new%key = pattern_key(run%choice%run_id, 'metadata', rank, round)
        number = ''
        if (run%choice%files == 'process') write (number, '(".",i6.6)') rank
        ! Of a directory that was removed, and made again, a client may know the old one still.
        new%directory = run%place%run_path//'/metadata.round'//decimal(round)//trim(number)
    end function new_names

    !> The rank whose names this one looks at: the number of a file of its own is the rank, and so
    !> is the place among those that share one.
    integer function partner_of(run) result(rank)
        type(run_result), intent(in) :: run

        rank = run%plan%read_share%position
        if (run%choice%files == 'process') rank = run%plan%read_share%file
    end function partner_of

    function new_task(run, own) result(task)
        type(run_result), intent(in) :: run
        type(names), intent(in) :: own
        type(file_task) :: task

        task%path = own%directory
        task%share = run%plan%write_share
        task%comm = run%plan%comm
        task%together = run%plan%comm
        task%watchdog = new_watchdog(run%choice%phase_limit, run%plan%rank)
        ! After a hang only what is empty can be removed: the names are too many.
        call task%watchdog%guard('', own%directory, own%directory//c_null_char &
            //run%place%directories())
    end function new_task

    !> Collective: the directories that the names will be in. Where asked for, on the right MDT.
    subroutine make_place(run, task, own, makes)
        type(run_result), intent(inout) :: run
        type(file_task), intent(inout) :: task
        type(names), intent(in) :: own
        logical, intent(in) :: makes                !! this rank makes its own, or the shared one

        character(:), allocatable :: message
        integer :: found

        call task%watchdog%watch('make the directories')
        if (makes) then
            call make_directory(own%directory, message)
            if (message /= '') call run%error%set(exit_io, 'mkdir', own%directory, message)
        end if
        if (run%plan%rank == 0 .and. run%choice%mdt_index >= 0 .and. .not. run%error%failed()) then
            found = run%place%keeper%mdt_index(own%directory)
            if (found /= run%choice%mdt_index) call run%error%set(exit_io, 'mkdir', own%directory, &
                'the directory is on MDT '//decimal(found)//', asked for: ' &
                //decimal(run%choice%mdt_index))
        end if
        call agree_watched(task%watchdog, run%plan%comm, run%error)
        if (run%error%failed() .and. makes) call remove_directory(own%directory, message)
    end subroutine make_place

    !> Collective: they are removed, and must be empty by then.
    subroutine remove_place(run, task, own, makes)
        type(run_result), intent(inout) :: run
        type(file_task), intent(inout) :: task
        type(names), intent(in) :: own
        logical, intent(in) :: makes

        character(:), allocatable :: message

        call task%watchdog%watch('remove the directories')
        message = ''
        if (makes) call remove_directory(own%directory, message)
        if (message /= '') call run%error%set(exit_io, 'rmdir', own%directory, message)
        call agree_watched(task%watchdog, run%plan%comm, run%error)
    end subroutine remove_place

    !> Collective: after a failure each rank removes what may be left of its own names.
    subroutine clear(run, task, own)
        type(run_result), intent(inout) :: run
        type(file_task), intent(inout) :: task
        type(names), intent(in) :: own

        type(failure) :: ignored

        call task%watchdog%watch_failed(run%error, is_agreed=.true.)
        call act(run, do_clear, kind_directory, own, 'clear', ignored)
        call agree_watched(task%watchdog, run%plan%comm, run%error)
    end subroutine clear

    !> Collective: all phases of a round, and what has to be seen between them.
    subroutine use_names(run, task, own, partners, times, listed)
        type(run_result), intent(inout) :: run
        type(file_task), intent(inout) :: task
        type(names), intent(in) :: own, partners
        type(stopwatch), intent(out) :: times
        integer(int64), intent(out) :: listed       !! entries, on this rank

        integer(int64) :: ignored
        logical, parameter :: directories_and_first(3) = [.true., .true., .false.], &
            directories_and_second(3) = [.true., .false., .true.], &
            directories(3) = [.true., .false., .false.], nothing(3) = .false.

        listed = 0
        call timed(phase_mkdir, do_mkdir, kind_directory, own)
        call timed(phase_create, do_create, kind_first, own)
        call timed_sync(run, task, own, times)
        call timed(phase_stat, do_stat, kind_first, partners)
        call timed_list(run, task, partners, directories_and_first, times, listed)
        if (.not. run%error%failed()) call look_at_layout(run, task, own)
        call timed(phase_rename, do_rename, kind_first, own)
        call timed(phase_read, do_read, kind_second, partners)
        call see_list(directories_and_second)
        call see(see_gone, kind_first)
        call timed(phase_unlink, do_unlink, kind_second, own)
        call see_list(directories)
        call see(see_gone, kind_second)
        call timed(phase_rmdir, do_rmdir, kind_directory, own)
        call see_list(nothing)
        call see(see_gone, kind_directory)

    contains

        !> A phase of its own, unless something has failed already.
        subroutine timed(phase, action, kind, whose)
            integer, intent(in) :: phase, kind
            integer(c_int32_t), intent(in) :: action
            type(names), intent(in) :: whose

            if (run%error%failed()) return
            call begin_operation(task, times)
            call begin_phase(task, times, phase)
            call act(run, action, kind, whose, trim(phase_names(phase)), run%error)
            call end_operation(task, times, phase, .true., run%error)
        end subroutine timed

        !> What nobody times: the partner sees that names are gone.
        subroutine see(action, kind)
            integer(c_int32_t), intent(in) :: action
            integer, intent(in) :: kind

            if (run%error%failed()) return
            call task%watchdog%watch('see what is gone')
            call act(run, action, kind, partners, 'lstat', run%error)
            call agree_watched(task%watchdog, task%comm, run%error)
        end subroutine see

        subroutine see_list(there)
            logical, intent(in) :: there(3)

            if (run%error%failed()) return
            call task%watchdog%watch('see what is listed')
            call list(run, partners, there, ignored)
            call agree_watched(task%watchdog, task%comm, run%error)
        end subroutine see_list

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

        character(15) :: name

        write (name, '(a1,i6.6,".",i7.7)') kinds(kind), rank, item
        path = directory//'/'//name
    end function path_of

    !> Collective: what one rank of every node holds is forced to stable storage, and each directory
    !> with the names in it.
    subroutine timed_sync(run, task, own, times)
        type(run_result), intent(inout) :: run
        type(file_task), intent(inout) :: task
        type(names), intent(in) :: own
        type(stopwatch), intent(inout) :: times

        character(:), allocatable :: message
        logical :: syncs

        if (run%error%failed()) return
        syncs = run%plan%nodes%is_leader .or. run%choice%files == 'process'
        call begin_operation(task, times)
        call begin_phase(task, times, phase_sync)
        if (syncs) then
            message = text_of(c_sync(own%directory//c_null_char))
            if (message /= '') call run%error%set(exit_io, 'fsync', own%directory, message)
        end if
        call end_operation(task, times, phase_sync, syncs, run%error)
    end subroutine timed_sync

    subroutine timed_list(run, task, partners, there, times, listed)
        type(run_result), intent(inout) :: run
        type(file_task), intent(inout) :: task
        type(names), intent(in) :: partners
        logical, intent(in) :: there(3)
        type(stopwatch), intent(inout) :: times
        integer(int64), intent(out) :: listed

        listed = 0
        if (run%error%failed()) return
        call begin_operation(task, times)
        call begin_phase(task, times, phase_list)
        call list(run, partners, there, listed)
        call end_operation(task, times, phase_list, lists(run), run%error)
    end subroutine timed_list

    !> Whether this rank reads a directory: its partner's, or for its node the one that all share.
    pure logical function lists(run)
        type(run_result), intent(in) :: run

        lists = run%choice%files == 'process' .or. run%plan%nodes%is_leader
    end function lists

    !> Reads a directory: of each kind all names must be there once, or none.
    subroutine list(run, partners, there, entries)
        type(run_result), intent(inout) :: run
        type(names), intent(in) :: partners
        logical, intent(in) :: there(3)             !! the names of each kind
        integer(int64), intent(out) :: entries

        character(kind=c_char) :: stranger(name_size)
        character(:), allocatable :: message
        integer(int8), allocatable :: seen(:, :, :)     ! (item, rank, kind): how often
        integer :: first, kind, last, rank

        entries = 0
        if (.not. lists(run)) return
        first = partners%rank
        last = first
        if (run%choice%files /= 'process') then
            first = 0
            last = run%plan%ranks - 1
        end if
        allocate (seen(0:run%choice%items - 1, first:last, 3), source=0_int8)
        message = text_of(c_list(partners%directory//c_null_char, int(first, c_int32_t), &
            int(last - first + 1, c_int32_t), int(run%choice%items, c_int64_t), seen, stranger, &
            int(name_size, c_int32_t), entries))
        if (message /= '') then
            call run%error%set(exit_io, 'readdir', partners%directory, message)
            return
        end if
        do kind = 1, 3
            do rank = first, last
                call judge(seen(:, rank, kind), kind, rank, there(kind) .and. is_here(rank))
            end do
        end do
        if (stranger(1) /= c_null_char) call run%error%set(exit_verification, 'readdir', &
            partners%directory//'/'//fortran_text(stranger), 'nobody has made it')

    contains

        !> On storage of a node's own there are the names of its own ranks.
        pure logical function is_here(rank)
            integer, intent(in) :: rank

            is_here = .not. run%place%is_node_local
            if (.not. is_here) is_here = any(run%plan%nodes%ranks%has(rank))
        end function is_here

        subroutine judge(times, kind, rank, is_there)
            integer(int8), intent(in) :: times(:)   !! that each item is listed
            integer, intent(in) :: kind, rank
            logical, intent(in) :: is_there

            character(:), allocatable :: said
            integer :: at, wanted

            wanted = merge(1, 0, is_there)
            at = findloc(int(times) == wanted, .false., 1)
            if (at == 0) return
            said = 'it is listed twice'
            if (times(at) == 0) said = 'it is not listed'
            if (.not. is_there) said = 'it is still listed'
            call run%error%set(exit_verification, 'readdir', path_of(partners%directory, kind, &
                rank, at - 1_int64), said)
        end subroutine judge

    end subroutine list

    !> Collective: once a run, whether the files have the layout that was asked for.
    subroutine look_at_layout(run, task, own)
        type(run_result), intent(inout) :: run
        type(file_task), intent(inout) :: task
        type(names), intent(in) :: own

        if (run%completed > 0) return
        call task%watchdog%watch('look at the layout')
        if (run%plan%rank == 0) call check_layout(run%place%keeper, path_of(own%directory, &
            kind_first, own%rank, 0_int64), 8_int64, run%place%targets(1)%request, &
            run%seen(1, 1)%layout, run%error)
        call agree_watched(task%watchdog, run%plan%comm, run%error)
    end subroutine look_at_layout

    !> Collective: on rank 0 how many operations each phase had, on all ranks together.
    subroutine count_operations(run, listed, record)
        type(run_result), intent(in) :: run
        integer(int64), intent(in) :: listed        !! on this rank
        type(repetition), intent(inout) :: record

        integer, parameter :: every(*) = [phase_mkdir, phase_create, phase_stat, phase_rename, &
            phase_read, phase_unlink, phase_rmdir]
        integer(int64) :: all_listed

        call MPI_Allreduce(listed, all_listed, 1, MPI_INT64_T, MPI_SUM, run%plan%comm)
        record%times%of_phase(every)%operations = int(run%choice%items, int64)*run%plan%ranks
        record%times%of_phase(phase_list)%operations = all_listed
    end subroutine count_operations

end module benchio_metadata
