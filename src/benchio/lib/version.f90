!> Version of benchio. Which commit it is built of is written into a submodule at every build: the
!> rest need not be compiled again for it.
module benchio_version
    implicit none (type, external)
    private

    public :: version

    interface
        !> The number of the release, then a plus sign and the last commit to these sources, if
        !> they are in a clone, with `.dirty` if they have been changed since.
        module function version() result(text)
            character(:), allocatable :: text
        end function version
    end interface

end module benchio_version
