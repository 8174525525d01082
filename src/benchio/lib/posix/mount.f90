!> Which filesystem a directory is on, as this process sees it; through mount.c.
module benchio_mount
    use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int32_t, c_int64_t, c_null_char
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_posix, only: fortran_text, text_of
    implicit none (type, external)
    private

    public :: filesystem_facts, lies_elsewhere

    !> What statfs and the mount table say of the filesystem of a directory. Empty texts: they say
    !> nothing of that.
    type, public :: mounted_filesystem
        integer(int64) :: magic = 0                 !! of statfs
        integer(int64) :: bytes = 0                 !! the size
        integer(int64) :: free_bytes = 0            !! for this user
        integer(int64) :: block_bytes = 0
        logical :: has_device = .false.             !! of blocks, this node's
        character(:), allocatable :: type           !! in the mount table
        character(:), allocatable :: point          !! where it is mounted
        character(:), allocatable :: source
        character(:), allocatable :: options
        character(:), allocatable :: uuid
        character(:), allocatable :: fsid           !! of statfs, in digits
        character(:), allocatable :: host           !! that sees it so
    end type mounted_filesystem

    integer, parameter :: longest = 4096, word = 64     !! as in mount.c

    type, bind(C) :: c_mounted
        character(kind=c_char) :: point(longest), source(longest), options(longest)
        character(kind=c_char) :: type(word), uuid(word), fsid(word), host(longest)
        integer(c_int64_t) :: magic, bytes, free_bytes, block_bytes
        integer(c_int32_t) :: has_device
    end type c_mounted

    interface
        integer(c_int) function c_look(path, mounted) bind(C, name='benchio_mounted')
            import :: c_char, c_int, c_mounted
            character(kind=c_char), intent(in) :: path(*)
            type(c_mounted), intent(out) :: mounted
        end function c_look

        integer(c_int) function c_lies_elsewhere(path, directory) &
            bind(C, name='benchio_lies_elsewhere')
            import :: c_char, c_int
            character(kind=c_char), intent(in) :: path(*), directory(*)
        end function c_lies_elsewhere
    end interface

contains

    !> Looks at the filesystem of a path.
    subroutine filesystem_facts(path, mounted, error)
        character(*), intent(in) :: path            !! absolute, without links
        type(mounted_filesystem), intent(out) :: mounted
        character(:), allocatable, intent(out) :: error

        type(c_mounted), allocatable :: seen

        allocate (seen)
        error = text_of(c_look(path//c_null_char, seen))
        mounted%magic = seen%magic
        mounted%bytes = seen%bytes
        mounted%free_bytes = seen%free_bytes
        mounted%block_bytes = seen%block_bytes
        mounted%has_device = seen%has_device /= 0
        mounted%type = fortran_text(seen%type)
        mounted%point = fortran_text(seen%point)
        mounted%source = fortran_text(seen%source)
        mounted%options = fortran_text(seen%options)
        mounted%uuid = fortran_text(seen%uuid)
        mounted%fsid = fortran_text(seen%fsid)
        mounted%host = fortran_text(seen%host)
    end subroutine filesystem_facts

    !> Says whether a file is a link, or in another mount than a directory, where it should be.
    logical function lies_elsewhere(path, directory)
        character(*), intent(in) :: path, directory

        lies_elsewhere = c_lies_elsewhere(path//c_null_char, directory//c_null_char) == 1
    end function lies_elsewhere

end module benchio_mount
