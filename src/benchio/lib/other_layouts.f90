!> Filesystems on which benchio sets no layouts, and which filesystem it is that a run is on.
!>
!> Some have a program that tells how a file is laid out: what it says is kept as it is. Of a
!> mounted server that tells its clients nothing, the mount table's entry is all that is known.
module benchio_other_layouts
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_cephfs, only: cephfs_keeper
    use benchio_failure, only: exit_internal, failure
    use benchio_file_layout, only: file_layout, layout_keeper, layout_request
    use benchio_lustre, only: lustre_keeper
    use benchio_posix, only: mounted_filesystem
    use benchio_program, only: run_program, word
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: choose_layout_keeper

    type, extends(layout_keeper) :: other_keeper
        private
        type(mounted_filesystem) :: mounted
    contains
        procedure :: refusal
        procedure :: set
        procedure :: observe
    end type other_keeper

    !> A mounted server.
    type, extends(other_keeper) :: remote_keeper
    contains
        procedure :: observe => observe_remote
    end type remote_keeper

    !> IBM Storage Scale: says which pool a file is in, and a stripe is a block.
    type, extends(other_keeper) :: gpfs_keeper
    contains
        procedure :: observe => observe_gpfs
    end type gpfs_keeper

    type, extends(other_keeper) :: beegfs_keeper
    contains
        procedure :: observe => observe_beegfs
    end type beegfs_keeper

contains

    !> The keeper for the filesystem of a directory. One in user space is known by its entry in the
    !> mount table alone. (No function: gfortran 12 assigns its result to freed memory.)
    subroutine choose_layout_keeper(filesystem, mounted, keeper)
        character(*), intent(in) :: filesystem      !! its type's name
        type(mounted_filesystem), intent(in) :: mounted
        class(layout_keeper), allocatable, intent(out) :: keeper

        character(:), allocatable :: name

        name = filesystem
        select case (filesystem)
        case ('lustre')
            allocate (lustre_keeper :: keeper)
            name = 'Lustre'
        case ('ceph')
            allocate (cephfs_keeper :: keeper)
            name = 'CephFS'
        case ('gpfs')
            allocate (gpfs_keeper :: keeper)
            name = 'GPFS'
        case ('beegfs')
            allocate (beegfs_keeper :: keeper)
            name = 'BeeGFS'
        case ('nfs')
            allocate (remote_keeper :: keeper)
            name = 'NFS ('//mounted%type//')'
        case default
            select case (mounted%type)
            case ('fuse.ceph-fuse', 'fuse.ceph')
                allocate (cephfs_keeper :: keeper)
                name = 'CephFS'
            case ('wekafs')
                allocate (remote_keeper :: keeper)
                name = 'Weka'
            case ('fuse.daos', 'fuse.dfuse')
                allocate (remote_keeper :: keeper)
                name = 'DAOS (dfuse)'
            case default
                allocate (other_keeper :: keeper)
                if (filesystem == 'fuse' .and. mounted%type /= '') name = mounted%type
            end select
        end select
        keeper%filesystem = name
        select type (keeper)
        class is (other_keeper)
            keeper%mounted = mounted
        end select
    end subroutine choose_layout_keeper

    function refusal(self, request, mdt_index) result(text)
        class(other_keeper), intent(in) :: self
        type(layout_request), intent(in) :: request
        integer, intent(in) :: mdt_index
        character(:), allocatable :: text

        text = ''
        if (request%is_set() .or. mdt_index >= 0) then
            text = 'a layout was asked for, but the directory is on '//self%filesystem &
                //', and benchio can set one on Lustre and CephFS only'
        end if
    end function refusal

    !> Never called: it was refused.
    subroutine set(self, directory, request, error)
        class(other_keeper), intent(in) :: self
        character(*), intent(in) :: directory
        type(layout_request), intent(in) :: request
        type(failure), intent(inout) :: error

        call error%set(exit_internal, 'set layout', directory, request%line()//' cannot be set ' &
            //'on '//self%filesystem)
    end subroutine set

    subroutine observe(self, path, bytes, found, error)
        class(other_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes
        type(file_layout), intent(out) :: found
        character(:), allocatable, intent(out) :: error

        associate (unused => self, not_asked => path, alike_for_all => bytes)
        end associate
        error = ''
        call say_nothing(found)
    end subroutine observe

    subroutine observe_remote(self, path, bytes, found, error)
        class(remote_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes
        type(file_layout), intent(out) :: found
        character(:), allocatable, intent(out) :: error

        associate (not_asked => path, alike_for_all => bytes)
        end associate
        error = ''
        call say_nothing(found)
        found%said = self%mounted%entry
        found%is_known = found%said /= ''
    end subroutine observe_remote

    pure subroutine say_nothing(found)
        type(file_layout), intent(inout) :: found

        allocate (found%components(0), found%holder%osts(0))
        found%said = ''
    end subroutine say_nothing

    subroutine observe_gpfs(self, path, bytes, found, error)
        class(gpfs_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes
        type(file_layout), intent(out) :: found
        character(:), allocatable, intent(out) :: error

        character(*), parameter :: pool = 'storage pool name:'
        character(:), allocatable :: line
        integer :: at

        associate (alike_for_all => bytes)
        end associate
        call say_nothing(found)
        found%is_known = .true.
        found%holder%stripe_size = self%mounted%block_bytes
        call run_program(word('mmlsattr')//word('-L')//path//achar(0), found%said, error)
        if (error /= '') then       ! where it is, though on no user's PATH
            call run_program(word('/usr/lpp/mmfs/bin/mmlsattr')//word('-L')//path//achar(0), &
                found%said, error)
        end if
        if (error /= '') found%said = ''    ! it may be for administrators alone
        error = ''
        at = index(found%said, pool)
        if (at == 0) return
        line = found%said(at + len(pool):)
        found%holder%pool = adjustl(line(:index(line//new_line('a'), new_line('a')) - 1))
    end subroutine observe_gpfs

    !> By its newer program or its older one.
    subroutine observe_beegfs(self, path, bytes, found, error)
        class(beegfs_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes
        type(file_layout), intent(out) :: found
        character(:), allocatable, intent(out) :: error

        associate (unused => self, alike_for_all => bytes)
        end associate
        call say_nothing(found)
        call run_program(word('beegfs')//word('entry')//word('info')//path//achar(0), found%said, &
            error)
        if (error /= '') then
            call run_program(word('beegfs-ctl')//word('--getentryinfo')//path//achar(0), &
                found%said, error)
        end if
        if (error /= '') found%said = ''
        error = ''
        found%is_known = found%said /= ''
    end subroutine observe_beegfs

end module benchio_other_layouts
