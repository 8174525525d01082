!> Types of filesystems: what statfs calls by a magic number, and by what each is known again.
module benchio_filesystem
    use, intrinsic :: iso_c_binding, only: c_int, c_int64_t
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_mount, only: mounted_filesystem
    implicit none (type, external)
    private

    public :: filesystem_name, identity_of, is_of_node, known_fraction, magic_text, name_listed
    public :: served_name

    type :: known_filesystem
        integer(int64) :: magic
        character(8) :: name
        character(6) :: known_by = 'source'     !! what no reboot changes; 'mount': nothing but that
    end type known_filesystem

    !> Linux: include/uapi/linux/magic.h, statfs(2); lustre: lustre_user.h; gpfs: gpfs.h;
    !> beegfs, panfs: as coreutils' stat names them.
    type(known_filesystem), parameter :: known(*) = [ &
        known_filesystem(int(z'0000ef53', int64), 'ext4', 'uuid'), &
        known_filesystem(int(z'01021994', int64), 'tmpfs', 'mount'), &
        known_filesystem(int(z'58465342', int64), 'xfs', 'uuid'), &
        known_filesystem(int(z'9123683e', int64), 'btrfs', 'uuid'), &
        known_filesystem(int(z'794c7630', int64), 'overlay', 'mount'), &
        known_filesystem(int(z'0bd00bd0', int64), 'lustre'), &
        known_filesystem(int(z'47504653', int64), 'gpfs'), &
        known_filesystem(int(z'00006969', int64), 'nfs'), &
        known_filesystem(int(z'aad7aaea', int64), 'panfs'), &
        known_filesystem(int(z'19830326', int64), 'beegfs'), &
        known_filesystem(int(z'00c36400', int64), 'ceph'), &
        known_filesystem(int(z'65735546', int64), 'fuse'), &
        known_filesystem(int(z'2fc12fc1', int64), 'zfs', 'fsid'), &
        known_filesystem(int(z'01021997', int64), '9p')]

    interface
        pure integer(c_int) function c_has_own_cache(magic) bind(C, name='benchio_has_own_cache')
            import :: c_int, c_int64_t
            integer(c_int64_t), value :: magic
        end function c_has_own_cache
    end interface

contains

    !> Returns the part of what was read that the page cache had, or -1 where another cache of this
    !> node, in which nobody sees, may have had it: of a filesystem that has one, unless all bytes
    !> are of other nodes.
    pure real(real64) function known_fraction(in_page_cache, from_other_nodes, magic)
        real(real64), intent(in) :: in_page_cache       !! less than 0: not known
        real(real64), intent(in) :: from_other_nodes    !! part of the bytes
        integer(int64), intent(in) :: magic

        known_fraction = in_page_cache
        if (in_page_cache <= 0 .and. from_other_nodes < 1.0_real64 .and. &
            c_has_own_cache(magic) /= 0) known_fraction = -1
    end function known_fraction

    pure function filesystem_name(magic) result(name)
        integer(int64), intent(in) :: magic
        character(:), allocatable :: name

        integer :: i

        name = 'unknown'
        do i = 1, size(known)
            if (known(i)%magic == magic) name = trim(known(i)%name)
        end do
    end function filesystem_name

    !> Returns what a filesystem of this type is known by beside its type and its mount point: the
    !> same after a reboot, by other device numbers. On a device it is the UUID, else the number
    !> that the kernel makes of it for statfs.
    pure function identity_of(name, mounted) result(text)
        character(*), intent(in) :: name
        type(mounted_filesystem), intent(in) :: mounted
        character(:), allocatable :: text

        select case (known_by(name, mounted))
        case ('uuid')
            text = mounted%uuid
            if (text == '') text = mounted%fsid
        case ('fsid')
            text = mounted%fsid
        case ('source')
            text = mounted%source
        case default    ! by its mount
            text = ''
        end select
    end function identity_of

    !> Returns the name of a filesystem in a source such as SERVER:SERVER:/NAME/DIRECTORY, whose
    !> servers may be others, or in another order, the next time.
    pure function served_name(source) result(name)
        character(*), intent(in) :: source
        character(:), allocatable :: name

        integer :: colon

        name = source
        colon = index(source, ':/', back=.true.)
        if (colon == 0) return
        name = source(colon + 2:)
        name = name(:index(name//'/', '/') - 1)
    end function served_name

    !> Says whether each node has such a filesystem for itself, so that those of others differ.
    pure logical function is_of_node(name, mounted)
        character(*), intent(in) :: name
        type(mounted_filesystem), intent(in) :: mounted

        is_of_node = known_by(name, mounted) /= 'source'
    end function is_of_node

    pure function known_by(name, mounted) result(by)
        character(*), intent(in) :: name
        type(mounted_filesystem), intent(in) :: mounted
        character(:), allocatable :: by

        integer :: i

        by = 'source'
        if (mounted%has_device) by = 'uuid'
        do i = 1, size(known)
            if (known(i)%name == name .and. by == 'source') by = trim(known(i)%known_by)
        end do
    end function known_by

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
