!> The spokesperson pattern, by the library of any backend: rank 0 collects a slab of the array from
!> its owners and writes it, or reads it and hands it out.
module benchio_gathered
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_BYTE, MPI_Comm_rank, MPI_COMM_SELF, MPI_Datatype, &
        MPI_DOUBLE_PRECISION, MPI_F_sync_reg, MPI_Irecv, MPI_Isend, MPI_Recv, MPI_Request, &
        MPI_Send, MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE, MPI_Type_free, MPI_Waitall, operator(/=)
    use benchio_backend, only: backend
    use benchio_decomposition, only: decomposition, new_decomposition, owner_along
    use benchio_failure, only: failure
    use benchio_posix, only: now
    use benchio_settings, only: io_settings
    use benchio_transfer, only: describe_piece, first_in_memory, new_transfer_plan, piece, &
        transfer_plan
    implicit none (type, external)
    private

    public :: new_gathered

    !> Any backend, of which the first rank alone has the file open.
    type, extends(backend), public :: gathered
        private
        class(backend), allocatable :: inner
        integer :: rank = 0                         !! of those that share the file
    contains
        procedure :: open_in_library
        procedure :: define
        procedure :: packed_elements
        procedure :: select => select_later
        procedure :: move
        procedure :: move_piece
        procedure :: flush
        procedure :: close
        procedure :: kind_of_transfer
    end type gathered

    !> Bytes of the buffer on rank 0, which bounds its extra memory.
    integer(int64), parameter :: slab_bytes = 8*2_int64**20

    integer, parameter :: tag = 1, credit = 2

contains

    !> Has rank 0 move what all ranks of a file have, by the library of a backend.
    type(gathered) function new_gathered(method) result(file)
        class(backend), intent(in) :: method

        allocate (file%inner, mold=method)
    end function new_gathered

    subroutine open_in_library(self, writes, error)
        class(gathered), intent(inout) :: self
        logical, intent(in) :: writes
        type(failure), intent(inout) :: error

        call MPI_Comm_rank(self%comm, self%rank)
        if (self%rank == 0) call self%inner%open(self%path, self%block, MPI_COMM_SELF, &
            self%settings, writes, error)
    end subroutine open_in_library

    subroutine define(self, error)
        class(gathered), intent(inout) :: self
        type(failure), intent(inout) :: error

        if (self%rank > 0) return
        call self%inner%define(error)
        if (allocated(self%inner%hints)) self%hints = self%inner%hints
    end subroutine define

    !> Counts the elements of the buffer on rank 0.
    pure integer(int64) function packed_elements(self, block, settings)
        class(gathered), intent(in) :: self
        type(decomposition), intent(in) :: block
        type(io_settings), intent(in) :: settings

        type(transfer_plan) :: plan

        plan = new_transfer_plan(block%global, slab_bytes)
        packed_elements = product(plan%step)
    end function packed_elements

    !> Each slab is selected when its turn comes.
    subroutine select_later(self, block, error)
        class(gathered), intent(inout) :: self
        type(decomposition), intent(in) :: block
        type(failure), intent(inout) :: error
    end subroutine select_later

    !> Moves no piece of a block: these are joined to slabs.
    subroutine move_piece(self, writes, part, memory, room, error)
        class(gathered), intent(inout) :: self
        logical, intent(in) :: writes
        type(piece), intent(in) :: part
        real(real64), intent(inout), contiguous, target :: memory(:)
        integer(int64), intent(in) :: room(3)
        type(failure), intent(inout) :: error
    end subroutine move_piece

    subroutine flush(self, error)
        class(gathered), intent(inout) :: self
        type(failure), intent(inout) :: error

        if (self%rank == 0) call self%inner%flush(error)
    end subroutine flush

    subroutine close(self, error)
        class(gathered), intent(inout) :: self
        type(failure), intent(inout) :: error

        if (self%rank == 0) call self%inner%close(error)
    end subroutine close

    function kind_of_transfer(self) result(text)
        class(gathered), intent(inout) :: self
        character(:), allocatable :: text

        text = self%inner%kind_of_transfer()
    end function kind_of_transfer

    !> Writes or reads all blocks through rank 0. The others only wait for it meanwhile: their times
    !> are not counted. Collective.
    subroutine move(self, writes, field, error)
        class(gathered), intent(inout) :: self
        logical, intent(in) :: writes
        real(real64), intent(inout), contiguous, target :: field(:, :, :)   !! with halo
        type(failure), intent(inout) :: error

        real(real64), pointer, contiguous :: values(:, :, :)
        type(decomposition) :: slab
        type(transfer_plan) :: plan
        type(piece) :: part
        integer(int64) :: number

        plan = new_transfer_plan(self%block%global, slab_bytes)
        slab%global = self%block%global
        slab%grid = 1
        do number = 1, plan%number_of()
            part = plan%piece(number)
            slab%lower = part%before
            slab%extent = part%extent
            if (self%rank > 0) then
                call exchange_with_first()
                cycle
            end if
            values(1:slab%extent(1), 1:slab%extent(2), 1:slab%extent(3)) => self%buffer%values
            if (.not. writes) call move_slab()
            self%gather_seconds = self%gather_seconds - now()
            call exchange_with_owners()
            self%gather_seconds = self%gather_seconds + now()
            if (writes) call move_slab()
        end do
        if (self%rank == 0) self%pack_seconds = self%inner%pack_seconds

    contains

        !> Moves the slab between rank 0 and the file; nothing after a failure, when the others
        !> still send their parts, or wait.
        subroutine move_slab()
            if (error%failed()) return
            call self%inner%select(slab, error)
            if (error%failed()) return
            call self%inner%move(writes, values, error)
        end subroutine move_slab

        !> Sends this rank's part of the slab to rank 0, or receives it. MPI would keep on rank 0
        !> what comes before it is asked for, up to the whole array: so a rank waits for a credit.
        subroutine exchange_with_first()
            type(MPI_Request) :: request(1)
            integer :: no_bytes(0)

            if (any(self%block%lower >= slab%lower + slab%extent) .or. &
                any(slab%lower >= self%block%lower + self%block%extent)) return
            if (writes) call MPI_Recv(no_bytes, 0, MPI_BYTE, 0, credit, self%comm, &
                MPI_STATUS_IGNORE)
            call start(writes, field, self%block, slab, 0, request(1))
            call MPI_Waitall(1, request, MPI_STATUSES_IGNORE)
            call MPI_F_sync_reg(field)
        end subroutine exchange_with_first

        !> Receives every owner's part of the slab on rank 0, rank 0's too, or sends them.
        subroutine exchange_with_owners()
            type(MPI_Request), allocatable :: requests(:)
            integer(int64) :: first(3), last(3), owner, x, y, z
            integer :: no_bytes(0), used

            first = owner_along(slab%lower, self%block%grid, self%block%global)
            last = owner_along(slab%lower + slab%extent - 1, self%block%grid, self%block%global)
            allocate (requests(product(last - first + 1) + 1))
            used = 0
            do z = first(3), last(3)
                do y = first(2), last(2)
                    do x = first(1), last(1)
                        owner = x + self%block%grid(1)*(y + self%block%grid(2)*z)
                        used = used + 1
                        call start(.not. writes, values, slab, new_decomposition(slab%global, &
                            self%block%grid, owner, 0_int64), int(owner), requests(used))
                        if (owner == 0) then
                            used = used + 1
                            call start(writes, field, self%block, slab, 0, requests(used))
                        else if (writes) then
                            call MPI_Send(no_bytes, 0, MPI_BYTE, int(owner), credit, self%comm)
                        end if
                    end do
                end do
            end do
            call MPI_Waitall(used, requests, MPI_STATUSES_IGNORE)
            call MPI_F_sync_reg(values)
            call MPI_F_sync_reg(field)
        end subroutine exchange_with_owners

        !> Begins to send, or to receive, what an array in memory has in common with another box.
        subroutine start(sends, array, box, other, partner, request)
            logical, intent(in) :: sends
            real(real64), intent(inout), contiguous, target :: array(:, :, :)
            type(decomposition), intent(in) :: box  !! whose elements the array has, and its halo
            type(decomposition), intent(in) :: other
            integer, intent(in) :: partner
            type(MPI_Request), intent(out) :: request

            type(MPI_Datatype) :: shared
            real(real64), pointer, contiguous :: memory(:)
            type(piece) :: part
            integer(int64) :: room(3)
            integer :: count

            part%before = max(box%lower, other%lower) - box%lower
            part%extent = min(box%lower + box%extent, other%lower + other%extent) &
                - max(box%lower, other%lower)
            room = box%extent + 2*box%halo
            call describe_piece(part, room, shared, count)
            memory(1:size(array, kind=int64)) => array
            memory => memory(first_in_memory(box, part):)
            if (sends) then
                call MPI_Isend(memory, count, shared, partner, tag, self%comm, &
                        request)
            else
                call MPI_Irecv(memory, count, shared, partner, tag, self%comm, &
                        request)
            end if
            if (shared /= MPI_DOUBLE_PRECISION) call MPI_Type_free(shared)  ! once it is done
        end subroutine start

    end subroutine move

end module benchio_gathered
