!> What a few repetitions came to.
module benchio_statistics
    use, intrinsic :: iso_fortran_env, only: real64
    implicit none (type, external)
    private

    public :: median

contains

    !> Of one or more values in any order; of an even number the mean of the two in the middle.
    pure real(real64) function median(values)
        real(real64), intent(in) :: values(:)

        real(real64) :: sorted(size(values))
        integer :: at, i

        do i = 1, size(values)      ! insertion: repetitions are few
            at = count(sorted(:i - 1) <= values(i)) + 1
            sorted(at + 1:i) = sorted(at:i - 1)
            sorted(at) = values(i)
        end do
        median = (sorted((size(values) + 1)/2) + sorted(size(values)/2 + 1))/2
    end function median

end module benchio_statistics
