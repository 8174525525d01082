!> Statistics of measured values.
module benchio_statistics
    use, intrinsic :: iso_fortran_env, only: real64
    implicit none (type, external)
    private

    public :: median, sorted

contains

    !> Finds the middle of one or more values; of an even number the mean of the two in the middle.
    pure real(real64) function median(values)
        real(real64), intent(in) :: values(:)

        associate (ordered => sorted(values), n => size(values))
            median = (ordered((n + 1)/2) + ordered(n/2 + 1))/2
        end associate
    end function median

    !> Sorts values, the least first, by merging halves.
    pure recursive function sorted(values) result(ordered)
        real(real64), intent(in) :: values(:)
        real(real64), allocatable :: ordered(:)

        real(real64), allocatable :: left(:), right(:)
        integer :: i, j, k

        ordered = values
        if (size(values) < 2) return
        left = sorted(values(:size(values)/2))
        right = sorted(values(size(values)/2 + 1:))
        i = 1
        j = 1
        do k = 1, size(values)
            if (j > size(right)) then
                ordered(k:) = left(i:)
                return
            else if (i > size(left)) then
                ordered(k:) = right(j:)
                return
            else if (left(i) <= right(j)) then
                ordered(k) = left(i)
                i = i + 1
            else
                ordered(k) = right(j)
                j = j + 1
            end if
        end do
    end function sorted

end module benchio_statistics
