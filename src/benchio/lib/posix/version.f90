!> Version of benchio. Which commit it is built of stands in a C source that is generated: no module
!> need be compiled again for it.
module benchio_version
    use, intrinsic :: iso_c_binding, only: c_char, c_int
    use benchio_posix, only: fortran_text
    implicit none (type, external)
    private

    public :: version

    interface
        subroutine c_version(text, size_of_text) bind(C, name='benchio_build')
            import :: c_char, c_int
            character(kind=c_char), intent(out) :: text(*)
            integer(c_int), value :: size_of_text
        end subroutine c_version
    end interface

contains

    !> The number of the release, then a plus sign and the last commit to these sources, if they are
    !> in a clone, with `.dirty` if they have been changed since.
    function version() result(text)
        character(:), allocatable :: text

        character(kind=c_char) :: buffer(64)

        call c_version(buffer, size(buffer, kind=c_int))
        text = fortran_text(buffer)
    end function version

end module benchio_version
