!> What a run has kept for another one to read, on other nodes or another night.
!>
!> Beside the files is a record of them: two namelist groups, and a checksum, so that a record that
!> was cut off or changed is not believed. It is written last, once every file was confirmed: files
!> without one are what is left of a run that did not end.
module benchio_kept_files
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_rank, MPI_Gather, MPI_INTEGER, &
        MPI_INT64_T
    use benchio_failure, only: agree, exit_io, exit_usage, failure
    use benchio_file_layout, only: name_length
    use benchio_layout, only: layout, read_as, turned
    use benchio_options, only: options
    use benchio_pattern, only: key_of_text
    use benchio_posix, only: sync_directories, write_file
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: assign_readers, choose_readers, find_kept_files, new_record, parse_record
    public :: record_text, write_record

    character(*), parameter, public :: record_name = 'kept.nml'

    !> Names of the number of this format.
    integer, parameter :: record_format = 1

    integer, parameter :: host_length = 256, word_length = name_length
    integer, parameter :: line_length = 2*host_length + 8

    type, public :: kept_files
        character(:), allocatable :: run_id
        character(:), allocatable :: started            !! the run, date and time, UTC
        character(:), allocatable :: files              !! as given to --files
        character(:), allocatable :: pattern            !! options that ask for its ways of access
        character(8), allocatable :: backends(:)
        character(word_length), allocatable :: targets(:)   !! as given to --targets
        integer :: first_round = 0, rounds = 0          !! those that were kept
        integer(int64) :: local_size(3) = 0             !! as given to the run; 0: not given
        integer(int64) :: global_size(3) = 0            !! the same
        integer(int64), allocatable :: extents(:, :)    !! (x y z, file), of its array
        integer(int64), allocatable :: grid(:, :)       !! (x y z, file), of its writers
        integer, allocatable :: file(:)                 !! that each rank wrote, from 0
        integer, allocatable :: host(:)                 !! each rank's, from 1
        character(host_length), allocatable :: hosts(:)
    end type kept_files

contains

    !> Collective: leaves the record beside the files of a run that has confirmed them, once their
    !> names are as safe as they are.
    subroutine write_record(directory, directories, choice, plan, started, completed, &
        host_of_rank, error)
        character(*), intent(in) :: directory
        character(*), intent(in) :: directories         !! with the files' names, each ended by NUL
        type(options), intent(in) :: choice
        type(layout), intent(in) :: plan
        character(*), intent(in) :: started
        integer, intent(in) :: completed                !! rounds
        character(*), intent(in) :: host_of_rank(:)     !! on rank 0
        type(failure), intent(inout) :: error

        character(:), allocatable :: text
        integer(int64), allocatable :: of_rank(:, :)

        allocate (of_rank(6, merge(plan%ranks, 0, plan%rank == 0)))
        associate (block => plan%own%block)
            call MPI_Gather([block%global, block%grid], 6, MPI_INT64_T, of_rank, 6, MPI_INT64_T, &
                0, plan%comm)
        end associate
        if (plan%rank == 0) then
            call sync_directories(directories, text)
            if (text /= '') then
                call error%set(exit_io, 'fsync', directory, text)
            else
                call write_file(directory//'/'//record_name, record_text(new_record(choice, plan, &
                    started, completed, host_of_rank, of_rank)), text)
                if (text /= '') call error%set(exit_io, 'write', directory//'/'//record_name, text)
            end if
        end if
        call agree(error, plan%comm)
    end subroutine write_record

    !> What there is to be said of a run that has kept its files.
    function new_record(choice, plan, started, completed, host_of_rank, of_rank) result(kept)
        type(options), intent(in) :: choice
        type(layout), intent(in) :: plan
        character(*), intent(in) :: started
        integer, intent(in) :: completed                !! rounds
        character(*), intent(in) :: host_of_rank(:)
        integer(int64), intent(in) :: of_rank(:, :)     !! (extents and grid of its array, rank)
        type(kept_files) :: kept

        integer :: rank

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
        kept%file = plan%file
        allocate (kept%extents(3, plan%files), kept%grid(3, plan%files))
        do rank = plan%ranks, 1, -1
            kept%extents(:, plan%file(rank) + 1) = of_rank(:3, rank)
            kept%grid(:, plan%file(rank) + 1) = of_rank(4:, rank)
        end do
        call list_hosts(host_of_rank, kept)
        if (choice%files == 'gather') then              ! the first of its ranks has written it
            kept%host = [(kept%host(findloc(plan%file, plan%file(rank), 1)), rank=1, plan%ranks)]
        end if
    end function new_record

    !> Each host once, and which of them each rank is on. Ranks of one are mostly neighbours.
    subroutine list_hosts(host_of_rank, kept)
        character(*), intent(in) :: host_of_rank(:)
        type(kept_files), intent(inout) :: kept

        character(host_length) :: hosts(size(host_of_rank))
        integer :: i, listed, rank

        allocate (kept%host(size(host_of_rank)))
        listed = 0
        do rank = 1, size(host_of_rank)
            do i = listed, 1, -1
                if (hosts(i) == host_of_rank(rank)) exit
            end do
            if (i == 0) then
                listed = listed + 1
                hosts(listed) = host_of_rank(rank)
                i = listed
            end if
            kept%host(rank) = i
        end do
        kept%hosts = hosts(:listed)
    end subroutine list_hosts

    !> The record as it stands in its file.
    function record_text(kept) result(text)
        type(kept_files), intent(in) :: kept
        character(:), allocatable :: text

        character(1), parameter :: lf = new_line('a')
        integer :: i

        text = '! Files that a run of benchio has kept, and confirmed before: this directory is ' &
            //'what'//lf//'! `benchio --operation read-existing --dir` reads.'//lf &
            //'&kept'//lf &
            //'format = '//decimal(record_format)//lf &
            //'run_id = '//quoted(kept%run_id)//lf &
            //'started = '//quoted(kept%started)//lf &
            //'files = '//quoted(kept%files)//lf &
            //'pattern = '//quoted(kept%pattern)//lf &
            //'first_round = '//decimal(kept%first_round)//lf &
            //'rounds = '//decimal(kept%rounds)//lf &
            //'local_size = '//numbers(kept%local_size)//lf &
            //'global_size = '//numbers(kept%global_size)//lf &
            //'backend_count = '//decimal(size(kept%backends))//lf &
            //'target_count = '//decimal(size(kept%targets))//lf &
            //'file_count = '//decimal(size(kept%extents, 2))//lf &
            //'host_count = '//decimal(size(kept%hosts))//lf &
            //'writers = '//decimal(size(kept%file))//lf &
            //'/'//lf//'&lists'//lf//'backends = '//lf
        do i = 1, size(kept%backends)
            text = text//quoted(trim(kept%backends(i)))//lf
        end do
        if (size(kept%targets) > 0) text = text//'targets = '//lf
        do i = 1, size(kept%targets)
            text = text//quoted(trim(kept%targets(i)))//lf
        end do
        text = text//'hosts = '//lf
        do i = 1, size(kept%hosts)
            text = text//quoted(trim(kept%hosts(i)))//lf
        end do
        text = text//'extents = '//lf//rows(reshape(kept%extents, [size(kept%extents)])) &
            //'grid = '//lf//rows(reshape(kept%grid, [size(kept%grid)])) &
            //'file = '//lf//rows(int(kept%file, int64)) &
            //'host = '//lf//rows(int(kept%host, int64)) &
            //'/'//lf
        text = text//checksum_line(text)//lf
    end function record_text

    !> A text between apostrophes; one in it is doubled.
    pure function quoted(text)
        character(*), intent(in) :: text
        character(:), allocatable :: quoted

        integer :: i

        quoted = ''''
        do i = 1, len(text)
            quoted = quoted//text(i:i)
            if (text(i:i) == '''') quoted = quoted//''''
        end do
        quoted = quoted//''''
    end function quoted

    pure function numbers(values) result(text)
        integer(int64), intent(in) :: values(:)
        character(:), allocatable :: text

        integer :: i

        text = ''
        do i = 1, size(values)
            text = text//merge(' ', ',', i == 1)//decimal(values(i))
        end do
    end function numbers

    !> Numbers in lines of a few.
    pure function rows(values) result(text)
        integer(int64), intent(in) :: values(:)
        character(:), allocatable :: text

        integer, parameter :: in_row = 12
        character(22*in_row) :: row
        integer :: at, first, i, length

        ! A text that grows by each number would be copied for each.
        allocate (character(22*size(values)) :: text)
        at = 0
        do first = 1, size(values), in_row
            row = ''
            length = 0
            do i = first, min(first + in_row - 1, size(values))
                row(length + 1:) = decimal(values(i))//','
                length = len_trim(row)
            end do
            text(at + 1:at + length + 1) = row(:length)//new_line('a')
            at = at + length + 1
        end do
        text = text(:at)
    end function rows

    function checksum_line(text) result(line)
        character(*), intent(in) :: text
        character(:), allocatable :: line

        line = '! checksum '//decimal(key_of_text(text))
    end function checksum_line

    !> Collective: the record in a directory that a run has kept, and what follows from it for the
    !> reading run. A failure says what is wrong with it, with exit status 2 if it is the command
    !> line.
    subroutine find_kept_files(directory, comm, choice, kept, error)
        character(*), intent(in) :: directory
        type(MPI_Comm), intent(in) :: comm
        type(options), intent(inout) :: choice
        type(kept_files), intent(out) :: kept
        type(failure), intent(inout) :: error

        character(:), allocatable :: message, path, text
        integer :: i, length, rank

        path = directory//'/'//record_name
        call MPI_Comm_rank(comm, rank)
        length = 0
        text = ''
        if (rank == 0) then
            call read_text(path, text, message)
            if (message /= '') call error%set(exit_io, 'open', path, message//': in a ' &
                //'directory that --operation write-keep has left there is such a record')
            if (message == '') length = len(text)
        end if
        call agree(error, comm)
        if (error%failed()) return
        call MPI_Bcast(length, 1, MPI_INTEGER, 0, comm)
        if (rank > 0) text = repeat(' ', length)
        call MPI_Bcast(text, length, MPI_CHARACTER, 0, comm)
        call parse_record(text, kept, message)
        if (message /= '') call error%set(exit_io, 'read', path, message)
        if (.not. error%failed()) then
            do i = 1, size(choice%backends)
                if (any(kept%backends == choice%backends(i))) cycle
                call error%set(exit_usage, 'read', path, 'no files of '//trim(choice%backends(i)) &
                    //' were kept; there are files of '//listed(kept%backends))
            end do
            choice%files = kept%files
            choice%targets = kept%targets
            choice%local_size = kept%local_size
            choice%global_size = kept%global_size
            choice%existing_extents = kept%extents
            choice%warmup = 0
            choice%repeats = kept%rounds
        end if
        call agree(error, comm)
    end subroutine find_kept_files

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

    !> The inverse of record_text. The message is empty or says what is wrong.
    subroutine parse_record(text, found, message)
        character(*), intent(in) :: text
        type(kept_files), intent(out) :: found
        character(:), allocatable, intent(out) :: message

        character(line_length), allocatable :: lines(:)
        character(word_length) :: run_id, started, files, pattern
        character(8), allocatable :: backends(:)
        character(word_length), allocatable :: targets(:)
        character(host_length), allocatable :: hosts(:)
        integer(int64), allocatable :: extents(:, :), grid(:, :)
        integer, allocatable :: file(:), host(:)
        integer(int64) :: local_size(3), global_size(3)
        integer :: backend_count, code, file_count, first_round, format, host_count, rounds
        integer :: last, target_count, writers
        namelist /kept/ format, run_id, started, files, pattern, first_round, rounds, &
            local_size, global_size, backend_count, target_count, file_count, host_count, writers
        namelist /lists/ backends, targets, hosts, extents, grid, file, host

        message = ''
        last = index(text, '! checksum ', back=.true.)
        if (last == 0) then
            message = 'it was cut off: it does not end with its checksum'
            return
        else if (text(last:) /= checksum_line(text(:last - 1))//new_line('a')) then
            message = 'it was changed or cut off: its checksum is not that of its text'
            return
        end if
        call split(text(:last - 1), lines)
        format = -1
        backend_count = 0
        target_count = 0
        file_count = 0
        host_count = 0
        writers = 0
        read (lines, nml=kept, iostat=code)
        if (code == 0 .and. format /= record_format) then
            message = 'it has format '//decimal(format)//', and this benchio reads ' &
                //decimal(record_format)
            return
        end if
        if (code == 0) then
            allocate (backends(backend_count), targets(target_count), hosts(host_count), &
                extents(3, file_count), grid(3, file_count), file(writers), host(writers))
            read (lines, nml=lists, iostat=code)
        end if
        if (code /= 0) then
            message = 'it is not as benchio writes it'
            return
        end if
        if (pattern /= '') then
            message = 'its files are of '//trim(pattern)//', which only the run that ' &
                //'writes them can read'
            return
        end if
        found%run_id = trim(run_id)
        found%started = trim(started)
        found%files = trim(files)
        found%pattern = trim(pattern)
        found%first_round = first_round
        found%rounds = rounds
        found%local_size = local_size
        found%global_size = global_size
        found%backends = backends
        found%targets = targets
        found%hosts = hosts
        found%extents = extents
        found%grid = grid
        found%file = file
        found%host = host
    end subroutine parse_record

    pure subroutine split(text, lines)
        character(*), intent(in) :: text
        character(line_length), allocatable, intent(out) :: lines(:)

        integer :: at, count, i

        count = 0
        do i = 1, len(text)
            if (text(i:i) == new_line('a')) count = count + 1
        end do
        allocate (lines(count))
        at = 0
        count = 0
        do i = 1, len(text)
            if (text(i:i) /= new_line('a')) cycle
            count = count + 1
            lines(count) = text(at + 1:i - 1)
            at = i
        end do
    end subroutine split

    !> Collective: each rank is to read what another host has written, if that can be.
    subroutine choose_readers(choice, kept, host_of_rank, plan)
        type(options), intent(in) :: choice
        type(kept_files), intent(in) :: kept
        character(*), intent(in) :: host_of_rank(:)     !! on rank 0
        type(layout), intent(inout) :: plan

        integer(int64), allocatable :: blocks(:, :)     ! (lower and extent, rank)
        integer, allocatable :: host(:), partner(:)
        integer :: rank, same_host

        allocate (blocks(6, merge(plan%ranks, 0, plan%rank == 0)), partner(plan%ranks))
        associate (block => plan%own%block)
            call MPI_Gather([block%lower, block%extent], 6, MPI_INT64_T, blocks, 6, MPI_INT64_T, &
                0, plan%comm)
        end associate
        if (plan%rank == 0) then
            host = [(findloc(kept%hosts == host_of_rank(rank), .true., 1), rank=1, plan%ranks)]
            call assign_readers(kept, plan%file, plan%node, host, blocks, partner, same_host)
        end if
        call MPI_Bcast(partner, plan%ranks, MPI_INTEGER, 0, plan%comm)
        call MPI_Bcast(same_host, 1, MPI_INTEGER, 0, plan%comm)
        call read_as(choice, partner, plan)
        plan%other_node_fraction = 1 - real(same_host, real64)/plan%ranks
    end subroutine choose_readers

    !> Whose share each rank reads, so that as few as can be read what their own host has written:
    !> of all turns of the nodes the first that has least of it.
    pure subroutine assign_readers(kept, file, node, host, blocks, partner, same_host)
        type(kept_files), intent(in) :: kept
        integer, intent(in) :: file(:)                  !! that each rank reads, from 0
        integer, intent(in) :: node(:)                  !! of each rank, from 0
        integer, intent(in) :: host(:)                  !! of each rank, among kept%hosts; or 0
        integer(int64), intent(in) :: blocks(:, :)      !! (lower and extent, rank)
        integer, intent(out) :: partner(:)              !! of each rank: a rank, from 0
        integer, intent(out) :: same_host               !! ranks that read what their host wrote

        integer :: candidate(size(node)), writers(size(kept%file))
        integer :: first(0:size(kept%extents, 2))       ! of the writers of each file, in writers
        integer :: found, i, n, shift

        first = 0
        do i = 1, size(kept%file)
            first(kept%file(i) + 1) = first(kept%file(i) + 1) + 1
        end do
        do i = 1, ubound(first, 1)
            first(i) = first(i) + first(i - 1)
        end do
        do i = size(kept%file), 1, -1                   ! by file, and in one by rank
            writers(first(kept%file(i) + 1)) = i
            first(kept%file(i) + 1) = first(kept%file(i) + 1) - 1
        end do
        first(:ubound(first, 1) - 1) = first(1:)

        same_host = huge(same_host)
        shift = 0
        do n = 0, maxval(node)
            candidate = turned(node, shift)
            found = 0
            do i = 1, size(node)
                if (host(i) == 0) cycle
                if (is_of_host(candidate(i) + 1, host(i))) found = found + 1
            end do
            if (found < same_host) then
                same_host = found
                partner = candidate
            end if
            if (same_host == 0) return
            shift = shift + count(node == n)
        end do

    contains

        !> Whether a host has written some of the block of a rank.
        pure logical function is_of_host(rank, its_host)
            integer, intent(in) :: rank, its_host

            integer(int64) :: from(3), to(3), x, y, z

            is_of_host = .true.
            associate (f => file(rank), lower => blocks(:3, rank), extent => blocks(4:, rank))
                associate (grid => kept%grid(:, f + 1), whole => kept%extents(:, f + 1))
                    from = ((lower + 1)*grid - 1)/whole
                    to = ((lower + extent)*grid - 1)/whole
                    do z = from(3), to(3)
                        do y = from(2), to(2)
                            do x = from(1), to(1)
                                if (kept%host(writers(first(f) + 1 + x + grid(1)*(y &
                                    + grid(2)*z))) == its_host) return
                            end do
                        end do
                    end do
                end associate
            end associate
            is_of_host = .false.
        end function is_of_host

    end subroutine assign_readers

end module benchio_kept_files
