!> A file as the files that it is: one, or several to which a library deals out its bytes in stripes
!> that take turns, with what else belongs to them. A byte has the offset that it has in the whole.
module benchio_file_parts
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_rank, MPI_INTEGER, MPI_INT64_T
    use benchio_failure, only: exit_io, failure
    use benchio_posix, only: file_size
    use benchio_raw_file, only: aligned_memory, raw_file
    implicit none (type, external)
    private

    integer, parameter, public :: path_length = 4096

    type, public :: file_parts
        integer :: subfiles = 0             !! that have the bytes; 0: it is one file
        integer :: writers = 0              !! ranks that have written the subfiles for all
        integer(int64) :: stripe_size = huge(0_int64)
        character(path_length), allocatable, private :: paths(:)    !! those with the bytes first
        type(raw_file), allocatable, private :: files(:)    !! open only once it was needed
    contains
        procedure :: name_parts
        procedure :: share
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

    !> Names a file that is one, or its parts: first those with the bytes, then what else belongs to
    !> it.
    subroutine name_parts(self, paths, subfiles, writers, stripe_size)
        class(file_parts), intent(inout) :: self
        character(*), intent(in) :: paths(:)
        integer, intent(in), optional :: subfiles       !! parts with the bytes
        integer, intent(in), optional :: writers        !! ranks that have written them for all
        integer(int64), intent(in), optional :: stripe_size !! bytes

        self%paths = paths
        if (allocated(self%files)) deallocate (self%files)
        allocate (self%files(size(paths)))
        if (present(subfiles)) self%subfiles = subfiles
        if (present(writers)) self%writers = writers
        if (present(stripe_size)) self%stripe_size = stripe_size
    end subroutine name_parts

    !> Tells all ranks of comm what its first rank knows of a file. Collective over comm.
    subroutine share(self, comm)
        class(file_parts), intent(inout) :: self
        type(MPI_Comm), intent(in) :: comm

        integer :: i, parts, rank

        call MPI_Comm_rank(comm, rank)
        parts = size(self%paths)
        call MPI_Bcast(parts, 1, MPI_INTEGER, 0, comm)
        call MPI_Bcast(self%subfiles, 1, MPI_INTEGER, 0, comm)
        call MPI_Bcast(self%writers, 1, MPI_INTEGER, 0, comm)
        call MPI_Bcast(self%stripe_size, 1, MPI_INT64_T, 0, comm)
        if (rank > 0) call self%name_parts([(' ', i=1, parts)])
        call MPI_Bcast(self%paths, parts*path_length, MPI_CHARACTER, 0, comm)
    end subroutine share

    !> The path of a part; those with the bytes come first, from 1.
    pure function path_of(self, number) result(path)
        class(file_parts), intent(in) :: self
        integer, intent(in) :: number
        character(:), allocatable :: path

        path = trim(self%paths(number))
    end function path_of

    !> Adds up the sizes of the parts with the bytes.
    subroutine bytes(self, sum_of_sizes, error)
        class(file_parts), intent(in) :: self
        integer(int64), intent(out) :: sum_of_sizes
        type(failure), intent(inout) :: error

        character(:), allocatable :: text
        integer(int64) :: size_of_part
        integer :: i

        sum_of_sizes = 0
        do i = 1, max(1, self%subfiles)
            call file_size(self%path_of(i), size_of_part, text)
            if (text /= '') call error%set(exit_io, 'stat', self%path_of(i), text)
            sum_of_sizes = sum_of_sizes + size_of_part
        end do
    end subroutine bytes

    !> Opens all parts.
    subroutine open(self, error, writes)
        class(file_parts), intent(inout) :: self
        type(failure), intent(inout) :: error
        logical, intent(in), optional :: writes

        integer :: i

        do i = 1, size(self%files)
            if (.not. error%failed()) call self%files(i)%open(self%path_of(i), error, writes=writes)
        end do
    end subroutine open

    !> Finds a byte: its part, its place in that part, and how many bytes follow there.
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
    subroutine need(self, number, error)
        class(file_parts), intent(inout) :: self
        integer, intent(in) :: number
        type(failure), intent(inout) :: error

        if (.not. self%files(number)%is_open()) call self%files(number)%open( &
            self%path_of(number), error, direct=.true.)
    end subroutine need

    !> Reads bytes, which may be in several parts, into memory that has room for a block more.
    subroutine read(self, offset, memory, before, wanted, error)
        class(file_parts), intent(inout) :: self
        integer(int64), intent(in) :: offset        !! in the whole
        type(aligned_memory), intent(inout) :: memory
        !> Bytes of the memory before the first, which change: as from the begin of a block of the
        !> file, so that blocks can be read where they belong.
        integer(int64), intent(in) :: before
        integer(int64), intent(in) :: wanted
        type(failure), intent(inout) :: error

        integer(int64) :: at, done, follow
        integer :: number

        done = 0
        do while (done < wanted)
            call find(self, offset + done, number, at, follow)
            follow = min(follow, wanted - done)
            call need(self, number, error)
            if (error%failed()) return
            call self%files(number)%read(at, memory%bytes, before + done, follow, done == 0, error)
            if (error%failed()) return
            done = done + follow
        end do
    end subroutine read

    !> Counts the bytes that are in this node's page cache; -1 where the kernel does not say.
    subroutine resident_bytes(self, offset, wanted, resident, error)
        class(file_parts), intent(inout) :: self
        integer(int64), intent(in) :: offset, wanted
        integer(int64), intent(out) :: resident
        type(failure), intent(inout) :: error

        integer(int64) :: at, done, follow, here
        integer :: number

        resident = 0
        done = 0
        do while (done < wanted)
            call find(self, offset + done, number, at, follow)
            follow = min(follow, wanted - done)
            call need(self, number, error)
            if (error%failed()) return
            here = self%files(number)%resident_bytes(at, follow)
            resident = merge(resident + here, -1_int64, resident >= 0 .and. here >= 0)
            done = done + follow
        end do
    end subroutine resident_bytes

    !> Says whether all that was read came past the page cache.
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
    subroutine sync(self, error)
        class(file_parts), intent(in) :: self
        type(failure), intent(inout) :: error

        integer :: i

        do i = 1, size(self%files)
            call self%files(i)%sync(error)
        end do
    end subroutine sync

    !> Asks the kernel to forget the pages of open parts.
    subroutine drop_pages(self, error)
        class(file_parts), intent(in) :: self
        type(failure), intent(inout) :: error

        integer :: i

        do i = 1, size(self%files)
            call self%files(i)%drop_pages(error)
        end do
    end subroutine drop_pages

    !> Returns the bytes of the open parts that this node had not yet written when their pages were
    !> dropped just now; -1 where that cannot be known.
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

        type(failure) :: ignored
        integer :: i

        do i = 1, size(self%files)
            call self%files(i)%close(ignored)
        end do
    end subroutine close

end module benchio_file_parts
