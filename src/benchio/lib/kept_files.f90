!> What a run has kept for another one to read, on other nodes or another night.
!>
!> Beside the files is a record of them: namelist groups, and a checksum, so that a record that was
!> cut off or changed is not believed. The record is written last, once every file was confirmed:
!> files without one are what is left of a run that did not end. One rank reads the record. All
!> ranks learn the first groups, which are short. The first rank of each node learns the last one,
!> on the nodes that have written.
module benchio_kept_files
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_Allreduce, MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_free, &
        MPI_Comm_rank, MPI_Comm_size, MPI_Comm_split, MPI_Gather, MPI_Get_processor_name, &
        MPI_IN_PLACE, MPI_INTEGER, MPI_INT64_T, MPI_MAX_PROCESSOR_NAME, MPI_Scatter, MPI_SUM, &
        MPI_UNDEFINED
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: agree, exit_io, exit_usage, failure
    use benchio_file_layout, only: name_length
    use benchio_layout, only: bytes_here, layout, plan_block, read_turned
    use benchio_nodes, only: host_length, node_list, node_view, numbers_of, rank_run, runs_of
    use benchio_options, only: options
    use benchio_pattern, only: key_of_text
    use benchio_posix, only: sync_directories, write_file
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: choose_readers, file_facts, find_kept_files, parse_record, record_text, write_record

    character(*), parameter, public :: record_name = 'kept.nml'

    !> Number of this format.
    integer, parameter :: record_format = 2

    integer, parameter :: word_length = name_length
    !> Values on a line of a namelist, with the name before them: as many as compilers write.
    integer, parameter :: line_of = 8
    character(*), parameter :: nodes_mark = '! Nodes:'//new_line('a')

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
        ! On the first rank of each node:
        type(node_list) :: nodes                        !! that have written
        integer, allocatable :: first_rank(:)           !! of each file, where each node has one
        integer, allocatable :: sharers(:)              !! the same: ranks of each file
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
        type(layout), intent(in) :: plan
        character(*), intent(in) :: started
        integer, intent(in) :: completed                !! rounds
        type(node_list), intent(in) :: nodes            !! on rank 0
        type(failure), intent(inout) :: error

        character(:), allocatable :: text
        type(kept_files) :: kept

        kept = new_record(choice, plan, started, completed, nodes)
        if (plan%rank == 0) then
            call sync_directories(directories, text)
            if (text /= '') then
                call error%set(exit_io, 'fsync', directory, text)
            else
                call write_file(directory//'/'//record_name, record_text(kept), text)
                if (text /= '') call error%set(exit_io, 'write', directory//'/'//record_name, text)
            end if
        end if
        call agree(error, plan%comm)
    end subroutine write_record

    !> Makes on rank 0 the record of a run that has kept its files. Collective.
    function new_record(choice, plan, started, completed, nodes) result(kept)
        type(options), intent(in) :: choice
        type(layout), intent(in) :: plan
        character(*), intent(in) :: started
        integer, intent(in) :: completed                !! rounds
        type(node_list), intent(in) :: nodes
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
        allocate (kept%first_rank(0), kept%sharers(0))
        if (choice%files /= 'node') return
        associate (share => plan%write_share)
            call MPI_Comm_split(plan%comm, merge(0, MPI_UNDEFINED, share%position == 0), &
                plan%rank, leaders)
            if (share%position > 0) return
            deallocate (kept%first_rank, kept%sharers)
            allocate (kept%first_rank(plan%files), kept%sharers(plan%files))
            call MPI_Gather(plan%rank, 1, MPI_INTEGER, kept%first_rank, 1, MPI_INTEGER, 0, leaders)
            call MPI_Gather(share%sharers, 1, MPI_INTEGER, kept%sharers, 1, MPI_INTEGER, 0, leaders)
            call MPI_Comm_free(leaders)
        end associate
    end function new_record

    !> The record as it stands in its file.
    function record_text(record) result(text)
        type(kept_files), intent(in) :: record
        character(:), allocatable :: text

        integer :: longest

        longest = max(1, maxval([0, len_trim(record%nodes%hosts)]))
        text = '! Files that a run of benchio has kept, and confirmed before: this directory is ' &
            //'what'//new_line('a')//'! `benchio --operation read-existing --dir` reads.' &
            //new_line('a')//head_text(record)//nodes_mark//nodes_text(record, longest)
        text = text//checksum_line(text)//new_line('a')
    end function record_text

    !> The groups that all ranks read.
    function head_text(record) result(text)
        type(kept_files), intent(in) :: record
        character(:), allocatable :: text

        character(8), allocatable :: backends(:)
        character(line_of*(2*word_length + 3)), allocatable :: lines(:)
        character(word_length), allocatable :: targets(:)
        type(kept_run) :: run
        namelist /kept/ run
        namelist /names/ backends, targets

        run = record%kept_run
        allocate (backends, source=record%backends)
        allocate (targets, source=record%targets)
        run%backend_count = size(backends)
        run%target_count = size(targets)
        run%host_count = size(record%nodes%hosts)
        run%run_count = size(record%nodes%runs)
        run%node_file_count = size(record%sharers)
        allocate (lines(64))
        lines = ''
        write (lines, nml=kept, delim='apostrophe')
        text = joined(lines)
        deallocate (lines)
        allocate (lines(size(backends) + size(targets) + 8))
        lines = ''
        write (lines, nml=names, delim='apostrophe')
        text = text//joined(lines)
    end function head_text

    !> The group that the first rank of each node reads.
    function nodes_text(record, longest) result(text)
        type(kept_files), intent(in) :: record
        integer, intent(in) :: longest                  !! characters of a host's name
        character(:), allocatable :: text

        character(longest), allocatable :: hosts(:)
        character(line_of*(2*longest + 12)), allocatable :: lines(:)
        integer, allocatable :: first_rank(:), node(:), runs(:), sharers(:)
        namelist /nodes/ hosts, runs, node, first_rank, sharers

        allocate (hosts, source=record%nodes%hosts)
        allocate (runs, source=numbers_of(record%nodes%runs))
        allocate (node, source=record%nodes%node)
        allocate (first_rank, source=record%first_rank)
        allocate (sharers, source=record%sharers)
        allocate (lines(size(hosts) + size(runs) + size(node) + 2*size(sharers) + 8))
        lines = ''
        write (lines, nml=nodes, delim='apostrophe')
        text = joined(lines)
    end function nodes_text

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

        character(:), allocatable :: message, path, text
        integer :: at, i, length, longest, rank

        path = directory//'/'//record_name
        call MPI_Comm_rank(comm, rank)
        length = 0
        at = 0
        text = ''
        if (rank == 0) then
            call read_text(path, text, message)
            if (message /= '') then
                call error%set(exit_io, 'open', path, message//': in a directory that ' &
                    //'--operation write-keep has left there is such a record')
            else
                call find_groups(text, at, length, message)
                if (message /= '') call error%set(exit_io, 'read', path, message)
            end if
        end if
        call agree(error, comm)
        if (error%failed()) return
        call MPI_Bcast(at, 1, MPI_INTEGER, 0, comm)
        call MPI_Bcast(length, 1, MPI_INTEGER, 0, comm)
        if (rank > 0) text = repeat(' ', length)
        call MPI_Bcast(text, at, MPI_CHARACTER, 0, comm)
        if (nodes%is_leader) call MPI_Bcast(text(at + 1:), length - at, MPI_CHARACTER, 0, &
            nodes%leaders)
        longest = longest_line(text)
        call parse_head(text(:at), longest, kept, message)
        if (message == '' .and. nodes%is_leader) then
            call parse_nodes(text(at + 1:length), longest, kept, message)
        end if
        if (message /= '') call error%set(exit_io, 'read', path, message)
        call agree(error, comm)
        if (error%failed()) return

        do i = 1, size(choice%backends)
            if (any(kept%backends == choice%backends(i))) cycle
            call error%set(exit_usage, 'read', path, 'no files of '//trim(choice%backends(i)) &
                //' were kept; there are files of '//listed(kept%backends))
        end do
        choice%files = trim(kept%files)
        choice%targets = kept%targets
        choice%local_size = kept%local_size
        choice%global_size = kept%global_size
        choice%warmup = 0
        choice%repeats = kept%rounds
        call find_file(comm, nodes, choice, kept, message)
        if (message /= '') call error%set(exit_io, 'read', path, message)
        call agree(error, comm)
    end subroutine find_kept_files

    !> Finds what the record says of the file that this rank reads. Neighbours share one.
    !> Collective.
    subroutine find_file(comm, nodes, choice, kept, message)
        type(MPI_Comm), intent(in) :: comm
        type(node_view), intent(in) :: nodes            !! of this run
        type(options), intent(inout) :: choice
        type(kept_files), intent(inout) :: kept
        character(:), allocatable, intent(out) :: message

        type(options) :: writers
        integer, allocatable :: facts(:, :), files(:)
        integer :: file, i, rank, ranks, facts_of_mine(4)

        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_size(comm, ranks)
        file = int(int(rank, int64)*kept%file_count/ranks)
        if (kept%files == 'node') then                  ! only the first rank of the node knows
            call MPI_Comm_size(nodes%on_node, ranks)
            if (.not. nodes%is_leader) ranks = 0
            allocate (files(ranks), facts(4, ranks))
            call MPI_Gather(file, 1, MPI_INTEGER, files, 1, MPI_INTEGER, 0, nodes%on_node)
            do i = 1, size(files)
                facts(:, i) = file_facts(kept, files(i))
            end do
            call MPI_Scatter(facts, 4, MPI_INTEGER, facts_of_mine, 4, MPI_INTEGER, 0, nodes%on_node)
        else
            facts_of_mine = file_facts(kept, file)
        end if
        writers = choice
        writers%grid = kept%grid
        kept%first = facts_of_mine(1)
        call plan_block(writers, facts_of_mine(3), facts_of_mine(4), kept%file_count, &
            facts_of_mine(2), 0, kept%array, message)
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

    pure function listed(names) result(text)
        character(*), intent(in) :: names(:)
        character(:), allocatable :: text

        integer :: i

        text = trim(names(1))
        do i = 2, size(names)
            text = text//', '//trim(names(i))
        end do
    end function listed

    !> The bytes of a file; the message is empty or says why there are none.
    subroutine read_text(path, text, message)
        character(*), intent(in) :: path
        character(:), allocatable, intent(out) :: text, message

        character(512) :: said
        integer :: code, size_of_file, unit

        message = ''
        open (newunit=unit, file=path, access='stream', form='unformatted', status='old', &
            action='read', iostat=code, iomsg=said)
        if (code /= 0) then
            message = 'it cannot be opened ('//trim(said)//')'
            return
        end if
        inquire (unit=unit, size=size_of_file)
        allocate (character(max(0, size_of_file)) :: text)
        if (size_of_file > 0) read (unit, iostat=code, iomsg=said) text
        if (code /= 0) message = 'it cannot be read ('//trim(said)//')'
        close (unit)
    end subroutine read_text

    !> Finds where the last group of a record begins, and the end of all groups. The message is
    !> empty or says what is wrong.
    subroutine find_groups(text, before, length, message)
        character(*), intent(in) :: text
        integer, intent(out) :: before, length          !! characters before both
        character(:), allocatable, intent(out) :: message

        message = ''
        length = index(text, '! checksum ', back=.true.) - 1
        before = index(text, nodes_mark) - 1
        if (length < 0) then
            message = 'it was cut off: it does not end with its checksum'
        else if (text(length + 1:) /= checksum_line(text(:length))//new_line('a')) then
            message = 'it was changed or cut off: its checksum is not that of its text'
        else if (before < 0) then
            message = 'it is not as this benchio writes it'
        end if
    end subroutine find_groups

    !> The inverse of record_text. The message is empty or says what is wrong.
    subroutine parse_record(text, record, message)
        character(*), intent(in) :: text
        type(kept_files), intent(out) :: record
        character(:), allocatable, intent(out) :: message

        integer :: before, length, longest

        call find_groups(text, before, length, message)
        longest = longest_line(text)
        if (message == '') call parse_head(text(:before), longest, record, message)
        if (message == '') call parse_nodes(text(before + 1:length), longest, record, message)
    end subroutine parse_record

    !> Reads the groups that all ranks know, and makes room for the last one.
    subroutine parse_head(text, longest, record, message)
        character(*), intent(in) :: text
        integer, intent(in) :: longest                  !! characters of a line
        type(kept_files), intent(out) :: record
        character(:), allocatable, intent(out) :: message

        character(8), allocatable :: backends(:)
        character(longest), allocatable :: lines(:)
        character(word_length), allocatable :: targets(:)
        integer :: code
        type(kept_run) :: run
        namelist /kept/ run
        namelist /names/ backends, targets

        message = ''
        call split(text, lines)
        read (lines, nml=kept, iostat=code)
        if (run%format /= record_format) then
            message = 'it has format '//decimal(run%format)//', and this benchio reads ' &
                //decimal(record_format)
            return
        end if
        if (code == 0) then
            allocate (backends(run%backend_count), targets(run%target_count))
            read (lines, nml=names, iostat=code)
        end if
        if (code /= 0) then
            message = 'it is not as benchio writes it'
            return
        end if
        if (run%pattern /= '') then
            message = 'its files are of '//trim(run%pattern)//', which only the run that writes ' &
                //'them can read'
            return
        end if
        record%kept_run = run
        record%backends = backends
        record%targets = targets
    end subroutine parse_head

    !> Reads the last group, as large as the first one says.
    subroutine parse_nodes(text, longest, record, message)
        character(*), intent(in) :: text
        integer, intent(in) :: longest                  !! characters of a line
        type(kept_files), intent(inout) :: record
        character(:), allocatable, intent(out) :: message

        character(host_length), allocatable :: hosts(:)
        character(longest), allocatable :: lines(:)
        integer, allocatable :: first_rank(:), node(:), runs(:), sharers(:)
        integer :: code
        namelist /nodes/ hosts, runs, node, first_rank, sharers

        message = ''
        allocate (hosts(record%host_count), runs(3*record%run_count), node(record%run_count), &
            first_rank(record%node_file_count), sharers(record%node_file_count))
        call split(text, lines)
        read (lines, nml=nodes, iostat=code)
        if (code /= 0) message = 'it is not as benchio writes it'
        record%nodes%hosts = hosts
        record%nodes%runs = runs_of(runs)
        record%nodes%node = node
        record%first_rank = first_rank
        record%sharers = sharers
    end subroutine parse_nodes

    !> A text as its lines.
    pure subroutine split(text, lines)
        character(*), intent(in) :: text
        character(*), allocatable, intent(out) :: lines(:)

        integer :: at, i, length

        allocate (lines(count([(text(i:i) == new_line('a'), i=1, len(text))])))
        at = 0
        do i = 1, size(lines)
            length = index(text(at + 1:), new_line('a'))
            lines(i) = text(at + 1:at + length - 1)
            at = at + length
        end do
    end subroutine split

    pure integer function longest_line(text) result(longest)
        character(*), intent(in) :: text

        integer :: at, length

        longest = 1
        at = 0
        do
            length = index(text(at + 1:), new_line('a'))
            if (length == 0) return
            longest = max(longest, length)
            at = at + length
        end do
    end function longest_line

    !> Has each rank read what another host has written, if that can be: of all turns of the nodes
    !> the first with the fewest bytes that the reader's host has written. Collective.
    subroutine choose_readers(choice, kept, plan)
        type(options), intent(in) :: choice
        type(kept_files), intent(in) :: kept
        type(layout), intent(inout) :: plan

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
