!> A file as the files that it is: one, or HDF5's subfiles and what belongs to them. A byte has the
!> offset that it has in the whole.
!>
!> HDF5 deals the bytes out in stripes to its subfiles, which take turns. A list beside them says
!> their names, and how large a stripe is. At the path itself is a stub, a copy of the superblock.
module benchio_file_parts
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_rank, MPI_INTEGER, MPI_INT64_T
    use benchio_decomposition, only: element_bytes
    use benchio_failure, only: agree, exit_io, failure
    use benchio_posix, only: file_size, subfile_list
    use benchio_raw_file, only: raw_file
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: find_subfiles, name_one_file

    integer, parameter :: path_length = 4096

    !> Every procedure that can fail returns an error text, empty on success.
    type, public :: file_parts
        integer :: subfiles = 0             !! 0: it is one file
        integer :: writers = 0              !! ranks that have written the subfiles for all
        integer(int64) :: stripe_size = huge(0_int64)
        character(:), allocatable :: path   !! of the part that the last error is of
        ! Of all parts, those with the bytes first:
        character(path_length), allocatable, private :: paths(:)
        type(raw_file), allocatable, private :: files(:)    !! open only once it was needed
    contains
        procedure :: path_of
        procedure :: bytes
        procedure :: open
        procedure :: read
        procedure :: resident_bytes
        procedure :: is_direct
        procedure :: sync
        procedure :: drop_pages
        procedure :: unsynced_bytes
        procedure :: close
    end type file_parts

contains

    !> A file that is nothing else.
    pure subroutine name_one_file(path, file)
        character(*), intent(in) :: path
        type(file_parts), intent(out) :: file

        call make_room(file, 1)
        file%paths(1) = path
    end subroutine name_one_file

    pure subroutine make_room(file, parts)
        type(file_parts), intent(inout) :: file
        integer, intent(in) :: parts

        allocate (file%paths(parts), file%files(parts))
    end subroutine make_room

    !> Collective: a closed file of HDF5's with its subfiles, as its first rank finds them. There
    !> have to be as many as were asked for, each with some of the bytes.
    subroutine find_subfiles(path, wanted, comm, file, error)
        character(*), intent(in) :: path
        integer, intent(in) :: wanted
        type(MPI_Comm), intent(in) :: comm          !! the ranks that share the file
        type(file_parts), intent(out) :: file
        type(failure), intent(inout) :: error

        integer :: rank

        call MPI_Comm_rank(comm, rank)
        if (rank == 0) call look_for_subfiles(path, wanted, file, error)
        call agree(error, comm)
        if (error%failed()) return
        call MPI_Bcast(file%subfiles, 1, MPI_INTEGER, 0, comm)
        call MPI_Bcast(file%writers, 1, MPI_INTEGER, 0, comm)
        call MPI_Bcast(file%stripe_size, 1, MPI_INT64_T, 0, comm)
        if (rank > 0) call make_room(file, wanted + 2)
        call MPI_Bcast(file%paths, size(file%paths)*path_length, MPI_CHARACTER, 0, comm)
    end subroutine find_subfiles

    subroutine look_for_subfiles(path, wanted, file, error)
        character(*), intent(in) :: path
        integer, intent(in) :: wanted
        type(file_parts), intent(inout) :: file
        type(failure), intent(inout) :: error

        character(:), allocatable :: list, message
        integer(int64) :: bytes
        integer :: i

        call subfile_list(path, list, message)
        if (message /= '') then
            call error%set(exit_io, 'stat', path, message)
            return
        end if
        call make_room(file, wanted + 2)
        call read_list(list, path(:index(path, '/', back=.true.)), file, message)
        if (message /= '') then
            call error%set(exit_io, 'read', list, message)
            return
        end if
        if (file%subfiles /= wanted) then
            call error%set(exit_io, 'subfiling', path, 'HDF5 has made '//decimal(file%subfiles) &
                //' subfile(s), asked for: '//decimal(wanted))
            return
        end if
        do i = 1, file%subfiles
            call file_size(trim(file%paths(i)), bytes, message)
            if (message == '' .and. bytes == 0) message = 'the subfile is empty: the array ends ' &
                //'before it in stripes of '//decimal(file%stripe_size)//' bytes; make it ' &
                //'larger, or the stripes smaller by H5FD_SUBFILING_STRIPE_SIZE'
            if (message /= '') call error%set(exit_io, 'stat', trim(file%paths(i)), message)
        end do
        file%paths(file%subfiles + 1) = path
        file%paths(file%subfiles + 2) = list
    end subroutine look_for_subfiles

    !> The list beside the subfiles: lines of KEY=VALUE, then their names in order, as far as there
    !> is room for them.
    subroutine read_list(list, directory, file, message)
        character(*), intent(in) :: list
        character(*), intent(in) :: directory       !! of all of them, with the last slash
        type(file_parts), intent(inout) :: file
        character(:), allocatable, intent(out) :: message

        character(path_length) :: line
        character(512) :: said
        integer :: code, equals, found, unit

        message = ''
        open (newunit=unit, file=list, status='old', action='read', iostat=code, iomsg=said)
        if (code /= 0) then
            message = trim(said)
            return
        end if
        found = 0
        file%stripe_size = 0
        do
            read (unit, '(a)', iostat=code) line
            if (code /= 0) exit
            equals = index(line, '=')
            select case (line(:max(0, equals - 1)))
            case ('stripe_size')
                read (line(equals + 1:), *, iostat=code) file%stripe_size
            case ('aggregator_count')
                read (line(equals + 1:), *, iostat=code) file%writers
            case ('subfile_count')
                read (line(equals + 1:), *, iostat=code) file%subfiles
            case ('')
                found = found + 1
                if (found <= size(file%paths)) file%paths(found) = directory//trim(line)
            case default        ! of the whole, which is known
            end select
            if (code /= 0) exit
        end do
        close (unit)
        if (found == 0 .or. found /= file%subfiles .or. file%stripe_size <= 0) message = &
            'this is no list of subfiles as HDF5 makes one'
    end subroutine read_list

    !> The path of a part; those with the bytes come first, from 1.
    pure function path_of(self, number) result(path)
        class(file_parts), intent(in) :: self
        integer, intent(in) :: number
        character(:), allocatable :: path

        path = trim(self%paths(number))
    end function path_of

    !> The sizes of the parts with the bytes, together.
    subroutine bytes(self, sum_of_sizes, text)
        class(file_parts), intent(inout) :: self
        integer(int64), intent(out) :: sum_of_sizes
        character(:), allocatable, intent(out) :: text

        integer(int64) :: size_of_part
        integer :: i

        sum_of_sizes = 0
        text = ''
        do i = 1, max(1, self%subfiles)
            self%path = trim(self%paths(i))
            call file_size(self%path, size_of_part, text)
            if (text /= '') return
            sum_of_sizes = sum_of_sizes + size_of_part
        end do
    end subroutine bytes

    !> Opens all parts.
    subroutine open(self, text, writes)
        class(file_parts), intent(inout) :: self
        character(:), allocatable, intent(out) :: text
        logical, intent(in), optional :: writes

        integer :: i

        text = ''
        do i = 1, size(self%files)
            self%path = trim(self%paths(i))
            call self%files(i)%open(self%path, text, writes=writes)
            if (text /= '') return
        end do
    end subroutine open

    !> Where a byte is: in which part, at which byte of it, and how many from there on.
    pure subroutine find(self, offset, number, at, follow)
        class(file_parts), intent(in) :: self
        integer(int64), intent(in) :: offset        !! in the whole
        integer, intent(out) :: number
        integer(int64), intent(out) :: at, follow

        integer(int64) :: stripe

        associate (turns => int(max(1, self%subfiles), int64))
            stripe = offset/self%stripe_size
            number = 1 + int(mod(stripe, turns))
            at = stripe/turns*self%stripe_size + mod(offset, self%stripe_size)
            follow = self%stripe_size - mod(offset, self%stripe_size)
        end associate
    end subroutine find

    !> Opens a part to be read past the page cache, unless it is open already.
    subroutine need(self, number, text)
        class(file_parts), intent(inout) :: self
        integer, intent(in) :: number
        character(:), allocatable, intent(out) :: text

        text = ''
        self%path = trim(self%paths(number))
        if (.not. self%files(number)%is_open()) then
            call self%files(number)%open(self%path, text, direct=.true.)
        end if
    end subroutine need

    !> Reads values, of which one may be in two parts.
    subroutine read(self, offset, values, text)
        class(file_parts), intent(inout) :: self
        integer(int64), intent(in) :: offset        !! in the whole
        real(real64), intent(inout), contiguous :: values(:)
        character(:), allocatable, intent(out) :: text

        integer(int64) :: at, done, follow
        integer :: number

        text = ''
        done = 0
        do while (done < element_bytes*size(values, kind=int64))
            call find(self, offset + done, number, at, follow)
            follow = min(follow, element_bytes*size(values, kind=int64) - done)
            call need(self, number, text)
            if (text == '') call self%files(number)%read(at, values, done, follow, text)
            if (text /= '') return
            done = done + follow
        end do
    end subroutine read

    !> How many of these bytes are in this node's page cache; -1 where the kernel does not say.
    subroutine resident_bytes(self, offset, wanted, resident, text)
        class(file_parts), intent(inout) :: self
        integer(int64), intent(in) :: offset, wanted
        integer(int64), intent(out) :: resident
        character(:), allocatable, intent(out) :: text

        integer(int64) :: at, done, follow, here
        integer :: number

        text = ''
        resident = 0
        done = 0
        do while (done < wanted)
            call find(self, offset + done, number, at, follow)
            follow = min(follow, wanted - done)
            call need(self, number, text)
            if (text /= '') return
            here = self%files(number)%resident_bytes(at, follow)
            resident = merge(resident + here, -1_int64, resident >= 0 .and. here >= 0)
            done = done + follow
        end do
    end subroutine resident_bytes

    !> Whether all that was read came past the page cache.
    pure logical function is_direct(self)
        class(file_parts), intent(in) :: self

        integer :: i

        is_direct = .true.
        do i = 1, size(self%files)
            if (self%files(i)%is_open()) is_direct = is_direct &
                .and. self%files(i)%is_direct
        end do
    end function is_direct

    !> To stable storage, of open parts: what this node holds of each.
    subroutine sync(self, text)
        class(file_parts), intent(inout) :: self
        character(:), allocatable, intent(out) :: text

        integer :: i

        text = ''
        do i = 1, size(self%files)
            self%path = trim(self%paths(i))
            call self%files(i)%sync(text)
            if (text /= '') return
        end do
    end subroutine sync

    !> Asks the kernel to forget the pages of open parts.
    subroutine drop_pages(self, text)
        class(file_parts), intent(inout) :: self
        character(:), allocatable, intent(out) :: text

        integer :: i

        text = ''
        do i = 1, size(self%files)
            self%path = trim(self%paths(i))
            call self%files(i)%drop_pages(text)
            if (text /= '') return
        end do
    end subroutine drop_pages

    !> How much of the open parts this node had not yet written when their pages were dropped just
    !> now; -1 where that cannot be known.
    integer(int64) function unsynced_bytes(self) result(unsynced)
        class(file_parts), intent(in) :: self

        integer(int64) :: here
        integer :: i

        unsynced = 0
        do i = 1, size(self%files)
            here = self%files(i)%unsynced_bytes()
            unsynced = merge(unsynced + here, -1_int64, unsynced >= 0 .and. here >= 0)
        end do
    end function unsynced_bytes

    subroutine close(self)
        class(file_parts), intent(inout) :: self

        character(:), allocatable :: ignored
        integer :: i

        do i = 1, size(self%files)
            call self%files(i)%close(ignored)
        end do
    end subroutine close

end module benchio_file_parts
