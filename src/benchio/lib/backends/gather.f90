!> The spokesperson pattern: rank 0 collects a slab of the array from its owners and writes it, or
!> reads it and hands it out.
module benchio_gather
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_BYTE, MPI_Comm, MPI_Comm_rank, MPI_Datatype, MPI_DOUBLE_PRECISION, &
        MPI_F_sync_reg, MPI_Irecv, MPI_Isend, MPI_Recv, MPI_Request, MPI_Send, MPI_STATUS_IGNORE, &
        MPI_STATUSES_IGNORE, MPI_Type_free, MPI_Waitall, operator(/=)
    use benchio_backend, only: backend
    use benchio_decomposition, only: decomposition, new_decomposition, owner_along
    use benchio_failure, only: failure
    use benchio_posix, only: now
    use benchio_transfer, only: describe_piece, first_in_memory, new_transfer_plan, piece, &
        transfer_plan
    implicit none (type, external)
    private

    public :: move_gathered, slab_elements

    !> Bytes of the buffer on rank 0, which bounds its extra memory.
    integer(int64), parameter :: slab_bytes = 8*2_int64**20

    integer, parameter :: tag = 1, credit = 2

contains

    !> Counts the elements of the buffer on rank 0.
    pure integer(int64) function slab_elements(block)
        type(decomposition), intent(in) :: block

        type(transfer_plan) :: plan

        plan = new_transfer_plan(block%global, slab_bytes)
        slab_elements = product(plan%step)
    end function slab_elements

    !> Writes or reads all blocks through rank 0, which alone has the file open. Collective.
    subroutine move_gathered(file, writes, field, block, comm, gather_seconds, error)
        class(backend), intent(inout) :: file       !! open on rank 0, for rank 0 alone
        logical, intent(in) :: writes
        real(real64), intent(inout), contiguous, target :: field(:, :, :)   !! with halo
        type(decomposition), intent(in) :: block    !! of this rank
        type(MPI_Comm), intent(in) :: comm          !! all ranks of the file
        real(real64), intent(out) :: gather_seconds !! of rank 0, which the others wait for: 0 there
        type(failure), intent(inout) :: error

        real(real64), pointer, contiguous :: values(:, :, :)
        type(decomposition) :: slab
        type(transfer_plan) :: plan
        type(piece) :: part
        integer(int64) :: number
        integer :: rank

        call MPI_Comm_rank(comm, rank)
        plan = new_transfer_plan(block%global, slab_bytes)
        slab%global = block%global
        slab%grid = 1
        gather_seconds = 0
        do number = 1, plan%number_of()
            part = plan%piece(number)
            slab%lower = part%before
            slab%extent = part%extent
            if (rank /= 0) then
                call exchange_with_first()
                cycle
            end if
            values(1:slab%extent(1), 1:slab%extent(2), 1:slab%extent(3)) => file%buffer%values
            if (.not. writes) call move_slab()
            gather_seconds = gather_seconds - now()
            call exchange_with_owners()
            gather_seconds = gather_seconds + now()
            if (writes) call move_slab()
        end do

    contains

        !> Moves the slab between rank 0 and the file; nothing after a failure, when the others
        !> still send their parts, or wait.
        subroutine move_slab()
            if (error%failed()) return
            call file%select(slab, error)
            if (error%failed()) return
            call file%move(writes, values, error)
        end subroutine move_slab

        !> Sends this rank's part of the slab to rank 0, or receives it. MPI would keep on rank 0
        !> what comes before it is asked for, up to the whole array: so a rank waits for a credit.
        subroutine exchange_with_first()
            type(MPI_Request) :: request(1)
            integer :: no_bytes(0)

            if (any(block%lower >= slab%lower + slab%extent) .or. &
                any(slab%lower >= block%lower + block%extent)) return
            if (writes) call MPI_Recv(no_bytes, 0, MPI_BYTE, 0, credit, comm, MPI_STATUS_IGNORE)
            call start_transfer(writes, field, block, slab, 0, comm, request(1))
            call MPI_Waitall(1, request, MPI_STATUSES_IGNORE)
            call MPI_F_sync_reg(field)
        end subroutine exchange_with_first

        !> Receives every owner's part of the slab on rank 0, rank 0's too, or sends them.
        subroutine exchange_with_owners()
            type(MPI_Request), allocatable :: requests(:)
            integer(int64) :: first(3), last(3), owner, x, y, z
            integer :: no_bytes(0), used

            first = owner_along(slab%lower, block%grid, block%global)
            last = owner_along(slab%lower + slab%extent - 1, block%grid, block%global)
            allocate (requests(product(last - first + 1) + 1))
            used = 0
            do z = first(3), last(3)
                do y = first(2), last(2)
                    do x = first(1), last(1)
                        owner = x + block%grid(1)*(y + block%grid(2)*z)
                        used = used + 1
                        call start_transfer(.not. writes, values, slab, new_decomposition( &
                            block%global, block%grid, owner, 0_int64), int(owner), comm, &
                            requests(used))
                        if (owner == 0) then
                            used = used + 1
                            call start_transfer(writes, field, block, slab, 0, comm, requests(used))
                        else if (writes) then
                            call MPI_Send(no_bytes, 0, MPI_BYTE, int(owner), credit, comm)
                        end if
                    end do
                end do
            end do
            call MPI_Waitall(used, requests, MPI_STATUSES_IGNORE)
            call MPI_F_sync_reg(values)
            call MPI_F_sync_reg(field)
        end subroutine exchange_with_owners

    end subroutine move_gathered

    !> Begins to send, or to receive, what an array in memory has in common with another box.
    subroutine start_transfer(sends, values, box, other, partner, comm, request)
        logical, intent(in) :: sends
        real(real64), intent(inout), contiguous, target :: values(:, :, :)
        type(decomposition), intent(in) :: box      !! whose elements the array has, and its halo
        type(decomposition), intent(in) :: other
        integer, intent(in) :: partner
        type(MPI_Comm), intent(in) :: comm
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
        memory(1:size(values, kind=int64)) => values
        memory => memory(first_in_memory(box, part):)
        if (sends) then
            call MPI_Isend(memory, count, shared, partner, tag, comm, request)
        else
            call MPI_Irecv(memory, count, shared, partner, tag, comm, request)
        end if
        if (shared /= MPI_DOUBLE_PRECISION) call MPI_Type_free(shared)  ! once it is done
    end subroutine start_transfer

end module benchio_gather
