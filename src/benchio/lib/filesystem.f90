!> Names of filesystem types: what statfs calls by a magic number.
module benchio_filesystem
    use, intrinsic :: iso_fortran_env, only: int64
    implicit none (type, external)
    private

    public :: filesystem_name, magic_text, name_listed

    type :: known_filesystem
        integer(int64) :: magic
        character(8) :: name
    end type known_filesystem

    !> Linux: include/uapi/linux/magic.h, statfs(2); lustre: lustre_user.h; gpfs: gpfs.h;
    !> beegfs, panfs: as coreutils' stat names them.
    type(known_filesystem), parameter :: known(*) = [ &
        known_filesystem(int(z'0000ef53', int64), 'ext4'), &
        known_filesystem(int(z'01021994', int64), 'tmpfs'), &
        known_filesystem(int(z'58465342', int64), 'xfs'), &
        known_filesystem(int(z'9123683e', int64), 'btrfs'), &
        known_filesystem(int(z'794c7630', int64), 'overlay'), &
        known_filesystem(int(z'0bd00bd0', int64), 'lustre'), &
        known_filesystem(int(z'47504653', int64), 'gpfs'), &
        known_filesystem(int(z'00006969', int64), 'nfs'), &
        known_filesystem(int(z'aad7aaea', int64), 'panfs'), &
        known_filesystem(int(z'19830326', int64), 'beegfs'), &
        known_filesystem(int(z'00c36400', int64), 'ceph'), &
        known_filesystem(int(z'65735546', int64), 'fuse'), &
        known_filesystem(int(z'2fc12fc1', int64), 'zfs'), &
        known_filesystem(int(z'01021997', int64), '9p')]

contains

    pure function filesystem_name(magic) result(name)
        integer(int64), intent(in) :: magic
        character(:), allocatable :: name

        integer :: i

        name = 'unknown'
        do i = 1, size(known)
            if (known(i)%magic == magic) name = trim(known(i)%name)
        end do
    end function filesystem_name

    pure function magic_text(magic) result(text)
        integer(int64), intent(in) :: magic
        character(:), allocatable :: text

        character(16) :: digits
        integer :: i

        write (digits, '(z0)') magic
        do i = 1, len_trim(digits)
            if (digits(i:i) >= 'A') digits(i:i) = achar(iachar(digits(i:i)) + 32)
        end do
        text = '0x'//trim(digits)
    end function magic_text

    !> Says whether a name is in a comma list.
    pure logical function name_listed(name, list)
        character(*), intent(in) :: name, list

        name_listed = index(','//list//',', ','//name//',') > 0
    end function name_listed

end module benchio_filesystem
