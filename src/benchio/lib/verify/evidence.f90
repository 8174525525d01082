!> Wrong data are evidence: where in which file they are, who has written them, and what they are.
module benchio_evidence
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_Allreduce, MPI_Exscan, MPI_IN_PLACE, MPI_INT64_T, MPI_SUM
    use benchio_access, only: element_bytes
    use benchio_file_layout, only: file_layout, unset
    use benchio_ownership, only: file_share, ownership
    use benchio_pattern, only: differences, kind_of_other, kind_shifted, kind_zeros, most_extents, &
        wrong_extent
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: gather_evidence

    integer(int64), parameter, public :: page_bytes = 4096

    !> A file beside wrong files that are kept: whoever removes directories of runs leaves it.
    character(*), parameter, public :: evidence_name = 'wrong_data.txt'

    !> An extent of wrong data in a file.
    type, public, extends(wrong_extent) :: traced_extent
        integer :: file = 0                         !! number of the file, from 0
        integer(int64) :: offset = -1               !! bytes in the file; -1: only the library knows
        integer :: writer = -1                      !! rank; -1: one of several on its host
        integer :: on_host_of = 0                   !! rank that ran on the writer's host
        integer :: stripe = -1, ost = -1            !! -1: not known
        character(:), allocatable :: path
        character(:), allocatable :: host           !! of the writer
        character(:), allocatable :: pattern        !! whose values they are; empty: not known
    contains
        procedure :: bytes
        procedure :: find_stripe
        procedure :: last_byte
    end type traced_extent

    !> All wrong data of one write or read; on rank 0, but for the numbers, which all ranks have.
    type, public :: evidence
        integer(int64) :: elements = 0              !! wrong, in all files; 0: there are none
        integer(int64) :: zeros = 0                 !! of them
        integer(int64) :: extents = 0               !! in all files
        integer :: listed = 0                       !! of them, on all ranks
        integer :: files(most_extents) = -1         !! of those that are listed, on all ranks
        type(traced_extent), allocatable :: traced(:)   !! that are listed, in the order of ranks
        integer :: backend = 0, target = 0          !! numbers of both; 0: no data are wrong
        logical :: is_kept = .false.                !! the files are left where they are
    contains
        procedure :: sentence
    end type evidence

    !> Numbers of an extent in a message.
    integer, parameter :: numbers = 4 + storage_size(wrong_extent())/storage_size(0_int64)

contains

    !> Brings the first extents of all ranks together. Collective.
    subroutine gather_evidence(wrong, offsets, share, plan, all_wrong)
        type(differences), intent(in) :: wrong          !! that this rank has found
        integer(int64), intent(in) :: offsets(:)        !! of its extents in the file, bytes, or -1
        type(file_share), intent(in) :: share           !! of which this rank has read
        type(ownership), intent(in) :: plan
        type(evidence), intent(out) :: all_wrong

        integer(int64) :: before, extents, listed(numbers, most_extents), totals(3)
        integer :: i

        totals = [wrong%elements, wrong%zeros, int(wrong%extents, int64)]
        call MPI_Allreduce(MPI_IN_PLACE, totals, 3, MPI_INT64_T, MPI_SUM, plan%comm)
        all_wrong%elements = totals(1)
        all_wrong%zeros = totals(2)
        all_wrong%extents = totals(3)
        extents = min(wrong%extents, most_extents)
        call MPI_Exscan(extents, before, 1, MPI_INT64_T, MPI_SUM, plan%comm)
        if (plan%rank == 0) before = 0                  ! MPI leaves it undefined there
        listed = 0
        do i = 1, int(min(extents, most_extents - before))
            listed(:, before + i) = packed(wrong%listed(i), offsets(i), share)
        end do
        call MPI_Allreduce(MPI_IN_PLACE, listed, size(listed), MPI_INT64_T, MPI_SUM, plan%comm)
        all_wrong%listed = int(min(all_wrong%extents, int(most_extents, int64)))
        all_wrong%files(:all_wrong%listed) = int(listed(1, :all_wrong%listed))
        allocate (all_wrong%traced(merge(all_wrong%listed, 0, plan%rank == 0)))
        do i = 1, size(all_wrong%traced)
            all_wrong%traced(i) = unpacked(listed(:, i))
        end do
    end subroutine gather_evidence

    !> An extent, and who has written it, as numbers.
    pure function packed(extent, offset, share) result(values)
        type(wrong_extent), intent(in) :: extent
        integer(int64), intent(in) :: offset
        type(file_share), intent(in) :: share
        integer(int64) :: values(numbers)

        integer(int64) :: writer

        associate (here => share%here)
            writer = here%first
            if (.not. here%has_one_writer) writer = writer + here%block_at(extent%first)
            values = [int(share%file, int64), offset, writer, merge(writer, -1_int64, &
                share%is_gathered .or. .not. here%has_one_writer), transfer(extent, [offset])]
        end associate
    end function packed

    !> The inverse of `packed`.
    pure type(traced_extent) function unpacked(values) result(extent)
        integer(int64), intent(in) :: values(numbers)

        extent%file = int(values(1))
        extent%offset = values(2)
        extent%on_host_of = int(values(3))
        extent%writer = int(values(4))
        extent%wrong_extent = transfer(values(5:), extent%wrong_extent)
        extent%path = ''
        extent%host = ''
        extent%pattern = ''
    end function unpacked

    !> Finds the stripe and the OST of the first byte in the layout of its file.
    pure subroutine find_stripe(self, of_file)
        class(traced_extent), intent(inout) :: self
        type(file_layout), intent(in) :: of_file

        integer :: i

        if (self%offset < 0 .or. .not. allocated(of_file%components)) return
        do i = 1, size(of_file%components)
            associate (part => of_file%components(i))
                if (self%offset < part%first_byte .or. part%stripe_size <= 0) cycle
                if (part%end_byte /= unset .and. self%offset >= part%end_byte) cycle
                self%stripe = int(self%offset/part%stripe_size)
                if (.not. allocated(part%osts)) cycle
                if (size(part%osts) > 0) self%ost = int(part%osts(1 + mod(self%stripe, &
                    size(part%osts))))
            end associate
        end do
    end subroutine find_stripe

    pure integer(int64) function bytes(self)
        class(traced_extent), intent(in) :: self

        bytes = element_bytes*self%elements
    end function bytes

    !> Number of the last byte of the extent in the file.
    pure integer(int64) function last_byte(self)
        class(traced_extent), intent(in) :: self

        last_byte = self%offset + self%bytes() - 1
    end function last_byte

    !> As "2 extents: 64 bytes at byte 4096 (page 1, stripe 0, OST 3), written by rank 1 on nid001:
    !> zeros"; of the first extent.
    pure function sentence(self) result(text)
        class(evidence), intent(in) :: self
        character(:), allocatable :: text

        text = ''
        if (self%listed == 0) return
        associate (extent => self%traced(1))
            if (self%extents > 1) text = decimal(self%extents)//' extents, the first: '
            text = text//decimal(extent%bytes())//' bytes'
            if (extent%offset >= 0) then
                text = text//' at byte '//decimal(extent%offset)//' (page ' &
                    //decimal(extent%offset/page_bytes)
                if (extent%stripe >= 0) text = text//', stripe '//decimal(extent%stripe)
                if (extent%ost >= 0) text = text//', OST '//decimal(extent%ost)
                text = text//')'
            end if
            text = text//', written'
            if (extent%writer >= 0) text = text//' by rank '//decimal(extent%writer)
            text = text//' on '//extent%host//': '
            select case (extent%kind)
            case (kind_zeros)
                text = text//'zeros'
            case (kind_shifted)
                text = text//'values of the place '//decimal(abs(extent%shift)*element_bytes) &
                    //' bytes '//trim(merge('further', 'before ', extent%shift > 0))
            case (kind_of_other)
                text = text//'values of '//extent%pattern
            case default
                text = text//'values that benchio has not written'
            end select
        end associate
    end function sentence

end module benchio_evidence
