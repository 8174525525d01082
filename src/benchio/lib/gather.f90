!> The spokesperson pattern: rank 0 collects a slab of the array from its owners, or hands it out.
module benchio_gather
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Comm, MPI_Comm_rank, MPI_Comm_size, MPI_Datatype, MPI_Irecv, &
        MPI_Isend, MPI_ORDER_FORTRAN, MPI_Recv, MPI_REAL8, MPI_Request, MPI_Send, &
        MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE, MPI_Type_commit, MPI_Type_create_subarray, &
        MPI_Type_free, MPI_Waitall
    use benchio_decomposition, only: decomposition, new_decomposition
    implicit none (type, external)
    private

    public :: gather_slab, scatter_slab

    integer, parameter :: tag = 1

contains

    !> Collective: the slab of the global array, on rank 0, from every rank's block.
    subroutine gather_slab(field, block, slab, buffer, comm)
        real(real64), intent(in), contiguous, target :: field(:, :, :)  !! with halo
        type(decomposition), intent(in) :: block        !! of this rank
        type(decomposition), intent(in) :: slab         !! without halo
        real(real64), intent(inout), contiguous, target :: buffer(:, :, :)   !! rank 0: the slab
        type(MPI_Comm), intent(in) :: comm

        type(MPI_Datatype) :: part
        type(MPI_Request), allocatable :: requests(:)
        integer :: i, rank, ranks, used

        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_size(comm, ranks)
        if (rank /= 0) then
            if (.not. overlap(block, slab)) return
            part = common_part(block, slab)
            call MPI_Send(field, 1, part, 0, tag, comm)
            call MPI_Type_free(part)
            return
        end if

        allocate (requests(ranks + 1))
        used = 0
        do i = 0, ranks - 1
            associate (owner => owner_block(block, i))
                if (.not. overlap(owner, slab)) cycle
                used = used + 1
                part = common_part(slab, owner)
                call MPI_Irecv(buffer, 1, part, i, tag, comm, requests(used))
                call MPI_Type_free(part)    ! once the transfer is done
            end associate
        end do
        if (overlap(block, slab)) then
            used = used + 1
            part = common_part(block, slab)
            call MPI_Isend(field, 1, part, 0, tag, comm, requests(used))
            call MPI_Type_free(part)
        end if
        call MPI_Waitall(used, requests(:used), MPI_STATUSES_IGNORE)
    end subroutine gather_slab

    !> Collective: rank 0 gives each rank its part of the slab.
    subroutine scatter_slab(buffer, slab, field, block, comm)
        real(real64), intent(in), contiguous, target :: buffer(:, :, :)     !! rank 0: the slab
        type(decomposition), intent(in) :: slab         !! without halo
        real(real64), intent(inout), contiguous, target :: field(:, :, :)   !! with halo
        type(decomposition), intent(in) :: block        !! of this rank
        type(MPI_Comm), intent(in) :: comm

        type(MPI_Datatype) :: part
        type(MPI_Request), allocatable :: requests(:)
        integer :: i, rank, ranks, used

        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_size(comm, ranks)
        if (rank /= 0) then
            if (.not. overlap(block, slab)) return
            part = common_part(block, slab)
            call MPI_Recv(field, 1, part, 0, tag, comm, MPI_STATUS_IGNORE)
            call MPI_Type_free(part)
            return
        end if

        allocate (requests(ranks + 1))
        used = 0
        if (overlap(block, slab)) then
            used = used + 1
            part = common_part(block, slab)
            call MPI_Irecv(field, 1, part, 0, tag, comm, requests(used))
            call MPI_Type_free(part)
        end if
        do i = 0, ranks - 1
            associate (owner => owner_block(block, i))
                if (.not. overlap(owner, slab)) cycle
                used = used + 1
                part = common_part(slab, owner)
                call MPI_Isend(buffer, 1, part, i, tag, comm, requests(used))
                call MPI_Type_free(part)
            end associate
        end do
        call MPI_Waitall(used, requests(:used), MPI_STATUSES_IGNORE)
    end subroutine scatter_slab

    pure function owner_block(block, rank) result(owner)
        type(decomposition), intent(in) :: block
        integer, intent(in) :: rank
        type(decomposition) :: owner

        owner = new_decomposition(block%global, block%grid, int(rank, int64), 0_int64)
    end function owner_block

    pure logical function overlap(a, b)
        type(decomposition), intent(in) :: a, b

        overlap = all(a%lower < b%lower + b%extent .and. b%lower < a%lower + a%extent)
    end function overlap

    !> The elements of one box, as it lies in memory with its halo, that are in another.
    function common_part(box, other) result(part)
        type(decomposition), intent(in) :: box, other
        type(MPI_Datatype) :: part

        integer :: sizes(3), subsizes(3), starts(3)
        integer(int64) :: first(3)

        first = max(box%lower, other%lower)
        sizes = int(box%extent + 2*box%halo)
        subsizes = int(min(box%lower + box%extent, other%lower + other%extent) - first)
        starts = int(first - box%lower + box%halo)
        call MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_REAL8, &
            part)
        call MPI_Type_commit(part)
    end function common_part

end module benchio_gather
