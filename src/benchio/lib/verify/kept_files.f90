!> What a run has kept for another one to read, on other nodes or another night.
!>
!> Beside the files is a record of them: namelist groups, and a checksum, so that a record that was
!> cut off or changed is not believed. The record is written last, once every file was confirmed:
!> files without one are what is left of a run that did not end. Rank 0 reads the record. All ranks
!> learn what is short of it, and the first rank of each node the nodes that have written.
module benchio_kept_files
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_Allreduce, MPI_Bcast, MPI_BYTE, MPI_CHARACTER, MPI_Comm, MPI_Comm_free, &
        MPI_Comm_rank, MPI_Comm_size, MPI_Comm_split, MPI_Gather, MPI_Get_processor_name, &
        MPI_IN_PLACE, MPI_INTEGER, MPI_INT64_T, MPI_MAX_PROCESSOR_NAME, MPI_SUM, MPI_UNDEFINED
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: agree, exit_io, exit_usage, failure
    use benchio_file_layout, only: name_length
    use benchio_ownership, only: bytes_here, ownership, plan_block, read_turned
    use benchio_nodes, only: host_length, node_list, node_view, numbers_of, rank_run, runs_of
    use benchio_options, only: options
    use benchio_pattern, only: key_of_text
    use benchio_posix, only: attempt, sync_directories, write_file
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: choose_readers, file_facts, find_kept_files, read_record, record_text, write_record

    character(*), parameter, public :: record_name = 'kept.nml'

    !> Number of this format.
    integer, parameter :: record_format = 3

    integer, parameter :: word_length = name_length
    !> Values on a line of a namelist, with the name before them: as many as compilers write.
    integer, parameter :: line_of = 8

    !> The first group of a record, as it is written.
    type, public :: kept_run
        integer :: format = record_format
        character(word_length) :: run_id = ''
        character(word_length) :: started = ''          !! the run, date and time, UTC
        character(word_length) :: files = ''            !! as given to --files
        character(word_length) :: pattern = ''          !! options that ask for its ways of access
        integer :: first_round = 0, rounds = 0          !! those that were kept
        integer(int64) :: local_size(3) = 0             !! as given to the run; 0: not given
        integer(int64) :: global_size(3) = 0            !! the same
        integer(int64) :: grid(3) = 0                   !! the same
        integer :: writers = 0, instances = 1
        integer :: file_count = 0                       !! of a backend in a round
        integer :: backend_count = 0, target_count = 0  !! entries of the groups that follow
        integer :: host_count = 0, run_count = 0, node_file_count = 0
    end type kept_run

    type, public, extends(kept_run) :: kept_files
        character(8), allocatable :: backends(:)
        character(word_length), allocatable :: targets(:)   !! as given to --targets
        integer, allocatable :: first_rank(:)           !! of each file, where each node has one
        integer, allocatable :: sharers(:)              !! the same: ranks of each file
        type(node_list) :: nodes                        !! that have written; on leaders alone
        ! Of the file that this rank reads:
        integer :: first = 0                            !! rank that has written its first block
        type(decomposition) :: array                    !! its extents, and the grid of its writers
    end type kept_files

contains

    !> Leaves the record beside the files of a run that has confirmed them, once their names are as
    !> safe as they are. Collective.
    subroutine write_record(directory, directories, choice, plan, started, completed, nodes, error)
        character(*), intent(in) :: directory
        character(*), intent(in) :: directories         !! with the files' names, each ended by NUL
        type(options), intent(in) :: choice
        type(ownership), intent(in) :: plan
        character(*), intent(in) :: started
        integer, intent(in) :: completed                !! rounds
        type(node_list), intent(in) :: nodes            !! on rank 0
        type(failure), intent(inout) :: error

        character(:), allocatable :: text
        type(kept_files) :: kept
        type(MPI_Comm) :: leaders

        kept%run_id = choice%run_id
        kept%started = started
        kept%files = choice%files
        kept%pattern = choice%settings%access%text()
        kept%backends = choice%backends
        kept%targets = choice%targets
        kept%first_round = choice%warmup + 1
        kept%rounds = completed - choice%warmup
        kept%local_size = choice%local_size
        if (all(choice%local_size == 0)) kept%global_size = choice%global_size
        kept%grid = choice%grid
        kept%writers = plan%ranks
        kept%instances = choice%instances
        kept%file_count = plan%files
        if (plan%rank == 0) kept%nodes = nodes
        associate (share => plan%write_share, files => merge(plan%files, 0, &
            choice%files == 'node' .and. plan%write_share%position == 0))
            allocate (kept%first_rank(files), kept%sharers(files))
            if (choice%files == 'node') call MPI_Comm_split(plan%comm, merge(0, MPI_UNDEFINED, &
                share%position == 0), plan%rank, leaders)
            if (files > 0) then
                call MPI_Gather(plan%rank, 1, MPI_INTEGER, kept%first_rank, 1, MPI_INTEGER, 0, &
                    leaders)
                call MPI_Gather(share%sharers, 1, MPI_INTEGER, kept%sharers, 1, MPI_INTEGER, 0, &
                    leaders)
                call MPI_Comm_free(leaders)
            end if
        end associate
        if (plan%rank == 0) then
            call attempt(sync_directories, directories, text)
            if (text /= '') then
                call error%set(exit_io, 'fsync', directory, text)
            else
                call write_file(directory//'/'//record_name, record_text(kept), text)
                if (text /= '') call error%set(exit_io, 'write', directory//'/'//record_name, text)
            end if
        end if
        call agree(error, plan%comm)
    end subroutine write_record

    !> The record as it stands in its file.
    function record_text(record) result(text)
        type(kept_files), intent(in) :: record
        character(:), allocatable :: text

        character(line_of*(2*word_length + 3)), allocatable :: lines(:)
        type(kept_run) :: run
        namelist /kept/ run

        run = record%kept_run
        run%backend_count = size(record%backends)
        run%target_count = size(record%targets)
        run%host_count = size(record%nodes%hosts)
        run%run_count = size(record%nodes%runs)
        run%node_file_count = size(record%sharers)
        allocate (lines(64))
        lines = ''
        write (lines, nml=kept, delim='apostrophe')
        text = '! Files that a run of benchio has kept, and confirmed before: this directory is ' &
            //'what'//new_line('a')//'! `benchio --operation read-existing --dir` reads.' &
            //new_line('a')//joined(lines)//lists_text(record, maxval([len(record%backends), &
            min(1, size(record%targets))*word_length, len_trim(record%nodes%hosts)]))
        text = text//checksum_line(text)//new_line('a')
    end function record_text

    !> The group with the lists.
    function lists_text(record, longest) result(text)
        type(kept_files), intent(in) :: record
        integer, intent(in) :: longest                  !! characters of a name
        character(:), allocatable :: text

        character(8), allocatable :: backends(:)
        character(word_length), allocatable :: targets(:)
        character(longest), allocatable :: hosts(:)
        character(line_of*(2*longest + 12)), allocatable :: lines(:)
        integer, allocatable :: first_rank(:), node(:), runs(:), sharers(:)
        namelist /lists/ backends, targets, hosts, runs, node, first_rank, sharers

        allocate (backends, source=record%backends)
        allocate (targets, source=record%targets)
        hosts = record%nodes%hosts              ! of another length
        allocate (runs, source=numbers_of(record%nodes%runs))
        allocate (node, source=record%nodes%node)
        allocate (first_rank, source=record%first_rank)
        allocate (sharers, source=record%sharers)
        allocate (lines(size(backends) + size(targets) + size(hosts) + size(runs) + size(node) &
            + 2*size(sharers) + 16))
        lines = ''
        write (lines, nml=lists, delim='apostrophe')
        text = joined(lines)
    end function lists_text

    !> Lines as one text, without those that are empty.
    pure function joined(lines) result(text)
        character(*), intent(in) :: lines(:)
        character(:), allocatable :: text

        integer :: i, length

        ! A text that grows by each line would be copied for each.
        allocate (character(sum(len_trim(lines) + 1)) :: text)
        length = 0
        do i = 1, size(lines)
            if (lines(i) == '') cycle
            text(length + 1:) = trim(lines(i))//new_line('a')
            length = length + len_trim(lines(i)) + 1
        end do
        text = text(:length)
    end function joined

    function checksum_line(text) result(line)
        character(*), intent(in) :: text
        character(:), allocatable :: line

        line = '! checksum '//decimal(key_of_text(text))
    end function checksum_line

    !> Reads the record in a directory that a run has kept, and what follows from it for the reading
    !> run. A failure says what is wrong with it, with exit status 2 if it is the command line.
    !> Collective.
    subroutine find_kept_files(directory, comm, nodes, choice, kept, error)
        character(*), intent(in) :: directory
        type(MPI_Comm), intent(in) :: comm
        type(node_view), intent(in) :: nodes            !! of this run
        type(options), intent(inout) :: choice
        type(kept_files), intent(out) :: kept
        type(failure), intent(inout) :: error

        character(:), allocatable :: message, path
        character(256) :: names
        integer :: i, k, rank

        path = directory//'/'//record_name
        call MPI_Comm_rank(comm, rank)
        if (rank == 0) call read_record(path, kept, error)
        call agree(error, comm)
        if (error%failed()) return
        call share_record(comm, nodes, rank, kept)

        do i = 1, size(choice%backends)
            if (any(kept%backends == choice%backends(i))) cycle
            write (names, '(*(a, :, ", "))') (trim(kept%backends(k)), k=1, size(kept%backends))
            call error%set(exit_usage, 'read', path, 'no files of '//trim(choice%backends(i)) &
                //' were kept; there are files of '//trim(names))
        end do
        choice%files = trim(kept%files)
        choice%targets = kept%targets
        choice%local_size = kept%local_size
        choice%global_size = kept%global_size
        choice%warmup = 0
        choice%repeats = kept%rounds
        call find_file(comm, choice, kept, message)
        if (message /= '') call error%set(exit_io, 'read', path, message)
        call agree(error, comm)
    end subroutine find_kept_files

    !> Tells all ranks what rank 0 has read, and the first rank of each node the lists. Collective.
    subroutine share_record(comm, nodes, rank, record)
        type(MPI_Comm), intent(in) :: comm
        type(node_view), intent(in) :: nodes            !! of this run
        integer, intent(in) :: rank
        type(kept_files), intent(inout) :: record

        integer, allocatable :: runs(:)

        call MPI_Bcast(record%kept_run, storage_size(record%kept_run)/8, MPI_BYTE, 0, comm)
        associate (list => record%nodes, files => record%node_file_count)
            if (rank > 0) allocate (record%backends(record%backend_count), &
                record%targets(record%target_count), record%first_rank(files), &
                record%sharers(files))
            call MPI_Bcast(record%backends, 8*record%backend_count, MPI_CHARACTER, 0, comm)
            call MPI_Bcast(record%targets, word_length*record%target_count, MPI_CHARACTER, 0, comm)
            call MPI_Bcast(record%first_rank, files, MPI_INTEGER, 0, comm)
            call MPI_Bcast(record%sharers, files, MPI_INTEGER, 0, comm)
            if (.not. nodes%is_leader) return
            allocate (runs(3*record%run_count))
            if (rank == 0) then
                runs = numbers_of(list%runs)
            else
                allocate (list%hosts(record%host_count), list%node(record%run_count))
            end if
            call MPI_Bcast(list%hosts, host_length*record%host_count, MPI_CHARACTER, 0, &
                nodes%leaders)
            call MPI_Bcast(runs, size(runs), MPI_INTEGER, 0, nodes%leaders)
            call MPI_Bcast(list%node, size(list%node), MPI_INTEGER, 0, nodes%leaders)
            list%runs = runs_of(runs)
        end associate
    end subroutine share_record

    !> Finds what the record says of the file that this rank reads. Neighbours share one.
    subroutine find_file(comm, choice, kept, message)
        type(MPI_Comm), intent(in) :: comm
        type(options), intent(inout) :: choice
        type(kept_files), intent(inout) :: kept
        character(:), allocatable, intent(out) :: message

        type(options) :: writers
        integer :: facts(4), rank, ranks

        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_size(comm, ranks)
        facts = file_facts(kept, int(int(rank, int64)*kept%file_count/ranks))
        writers = choice
        writers%grid = kept%grid
        kept%first = facts(1)
        call plan_block(writers, facts(3), facts(4), kept%file_count, facts(2), 0, kept%array, &
            message)
        choice%existing_files = kept%file_count
        choice%existing_extents = kept%array%global
    end subroutine find_file

    !> The rank that has written the first block of a file, how many ranks have written the file,
    !> its number among the files of its instance, from 0, and how many those are.
    pure function file_facts(kept, file) result(facts)
        type(kept_files), intent(in) :: kept
        integer, intent(in) :: file                     !! from 0
        integer :: facts(4)

        integer :: team
        integer, allocatable :: instance(:)

        team = kept%writers/kept%instances
        if (kept%files == 'node') then
            instance = kept%first_rank/team
            facts(:2) = [kept%first_rank(file + 1), kept%sharers(file + 1)]
            facts(3) = count(instance(:file) == instance(file + 1))
            facts(4) = count(instance == instance(file + 1))
        else
            facts(2) = kept%writers/kept%file_count
            facts(1) = file*facts(2)
            facts(4) = kept%file_count/kept%instances
            facts(3) = mod(file, facts(4))
        end if
    end function file_facts

    !> Reads a record that is whole, as its checksum says.
    subroutine read_record(path, record, error)
        character(*), intent(in) :: path
        type(kept_files), intent(out) :: record
        type(failure), intent(inout) :: error

        character(:), allocatable :: text
        character(512) :: reason
        integer :: bytes, code, length, unit

        open (newunit=unit, file=path, access='stream', form='unformatted', status='old', &
            action='read', iostat=code, iomsg=reason)
        if (code == 0) then
            inquire (unit=unit, size=bytes)
            allocate (character(max(0, bytes)) :: text)
            if (bytes > 0) read (unit, iostat=code, iomsg=reason) text
            close (unit)
        end if
        if (code /= 0) then
            call error%set(exit_io, 'open', path, 'it cannot be opened ('//trim(reason)//'): in ' &
                //'a directory that --operation write-keep has left there is such a record')
            return
        end if
        length = index(text, '! checksum ', back=.true.) - 1
        if (length < 0) then
            call error%set(exit_io, 'read', path, 'it was cut off: it does not end with its ' &
                //'checksum')
        else if (text(length + 1:) /= checksum_line(text(:length))//new_line('a')) then
            call error%set(exit_io, 'read', path, 'it was changed or cut off: its checksum is ' &
                //'not that of its text')
        else
            open (newunit=unit, file=path, status='old', action='read')
            call read_groups(unit, record, text)
            close (unit)
            if (text /= '') call error%set(exit_io, 'read', path, text)
        end if
    end subroutine read_record

    !> Reads both groups; the second is as large as the first one says. The message is empty or says
    !> what is wrong.
    subroutine read_groups(unit, record, message)
        integer, intent(in) :: unit
        type(kept_files), intent(inout) :: record
        character(:), allocatable, intent(out) :: message

        character(8), allocatable :: backends(:)
        character(word_length), allocatable :: targets(:)
        character(host_length), allocatable :: hosts(:)
        integer, allocatable :: first_rank(:), node(:), runs(:), sharers(:)
        integer :: code
        type(kept_run) :: run
        namelist /kept/ run
        namelist /lists/ backends, targets, hosts, runs, node, first_rank, sharers

        message = ''
        read (unit, nml=kept, iostat=code)
        if (run%format /= record_format) then
            message = 'it has format '//decimal(run%format)//', and this benchio reads ' &
                //decimal(record_format)
            return
        end if
        if (code == 0) then
            allocate (backends(run%backend_count), targets(run%target_count), &
                hosts(run%host_count), runs(3*run%run_count), node(run%run_count), &
                first_rank(run%node_file_count), sharers(run%node_file_count))
            read (unit, nml=lists, iostat=code)
        end if
        if (code /= 0) then
            message = 'it is not as benchio writes it'
            return
        end if
        if (run%pattern /= '') message = 'its files are of '//trim(run%pattern)//', which only ' &
            //'the run that writes them can read'
        record%kept_run = run
        record%backends = backends
        record%targets = targets
        record%nodes%hosts = hosts
        record%nodes%runs = runs_of(runs)
        record%nodes%node = node
        record%first_rank = first_rank
        record%sharers = sharers
    end subroutine read_groups

    !> Has each rank read what another host has written, if that can be: of all turns of the nodes
    !> the first with the fewest bytes that the reader's host has written. Collective.
    subroutine choose_readers(choice, kept, plan)
        type(options), intent(in) :: choice
        type(kept_files), intent(in) :: kept
        type(ownership), intent(inout) :: plan

        integer, parameter :: turns_at_once = 32
        integer(int64) :: bytes(turns_at_once), least
        integer :: best, first, i, turns

        associate (here => plan%write_share%here)
            here%first = kept%first
            here%has_one_writer = kept%files == 'gather' .or. kept%files == 'node'
            here%array = kept%array
            call find_own_ranks(kept, plan%nodes, here%ranks)
        end associate
        turns = (plan%ranks + plan%nodes%largest - 1)/plan%nodes%largest
        least = huge(least)
        best = 0
        do first = 0, turns - 1, turns_at_once
            bytes = huge(bytes)/plan%ranks
            do i = 1, min(turns_at_once, turns - first)
                bytes(i) = bytes_here(choice, plan%nodes%in_order, &
                    (first + i - 1)*plan%nodes%largest, plan)
            end do
            call MPI_Allreduce(MPI_IN_PLACE, bytes, turns_at_once, MPI_INT64_T, MPI_SUM, plan%comm)
            if (minval(bytes) < least) best = first + minloc(bytes, 1) - 1
            least = min(least, minval(bytes))
            if (least == 0) exit
        end do
        call read_turned(choice, plan%nodes%in_order, best*plan%nodes%largest, plan)
    end subroutine choose_readers

    !> Finds the ranks of the run that has written which ran on this node's host. Collective.
    subroutine find_own_ranks(kept, nodes, ranks)
        type(kept_files), intent(in) :: kept
        type(node_view), intent(in) :: nodes
        type(rank_run), allocatable, intent(out) :: ranks(:)

        character(MPI_MAX_PROCESSOR_NAME) :: name
        integer, allocatable :: message(:)
        integer :: i, length

        allocate (message(0))
        if (nodes%is_leader) then
            call MPI_Get_processor_name(name, length)
            message = numbers_of(pack(kept%nodes%runs, [(kept%nodes%hosts(kept%nodes%node(i)) &
                == name(:length), i=1, size(kept%nodes%runs))]))
        end if
        length = size(message)
        call MPI_Bcast(length, 1, MPI_INTEGER, 0, nodes%on_node)
        if (.not. nodes%is_leader) then
            deallocate (message)
            allocate (message(length))
        end if
        call MPI_Bcast(message, length, MPI_INTEGER, 0, nodes%on_node)
        ranks = runs_of(message)
    end subroutine find_own_ranks

end module benchio_kept_files
