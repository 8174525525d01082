!> Filesystems on which benchio sets no layouts, and which filesystem it is that a run is on.
!>
!> Some have a program that tells how a file is laid out: its words are kept as they are. Of a
!> mounted server that tells its clients nothing, the mount table's entry is all that is known.
module benchio_other_layouts
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_cephfs, only: cephfs_keeper
    use benchio_file_layout, only: file_layout, layout_keeper
    use benchio_lustre, only: lustre_keeper
    use benchio_posix, only: mounted_filesystem
    use benchio_program, only: blanks_to_words, run_program
    implicit none (type, external)
    private

    public :: choose_layout_keeper

    !> A mounted server.
    type, extends(layout_keeper) :: remote_keeper
    contains
        procedure :: observe => observe_remote
    end type remote_keeper

    !> A filesystem whose program tells of a file, by the first of these command lines that runs.
    type, extends(layout_keeper) :: told_keeper
        private
        character(64) :: command_lines(2) = ''  !! without the path
    contains
        procedure :: observe => observe_told
    end type told_keeper

    !> IBM Storage Scale: its program says which pool a file is in, and a stripe is a block.
    type, extends(told_keeper) :: gpfs_keeper
    contains
        procedure :: observe => observe_gpfs
    end type gpfs_keeper

contains

    !> Chooses the keeper for the filesystem of a directory. A filesystem in user space is known by
    !> its entry in the mount table alone. (No function: gfortran 12 assigns its result to freed
    !> memory.)
    subroutine choose_layout_keeper(filesystem, mounted, keeper)
        character(*), intent(in) :: filesystem      !! its type's name
        type(mounted_filesystem), intent(in) :: mounted
        class(layout_keeper), allocatable, intent(out) :: keeper

        character(:), allocatable :: name

        name = filesystem
        if (filesystem == 'fuse' .and. mounted%type /= '') name = mounted%type
        if (mounted%type == 'wekafs') name = mounted%type
        select case (name)
        case ('lustre')
            allocate (lustre_keeper :: keeper)
            name = 'Lustre'
        case ('ceph', 'fuse.ceph-fuse', 'fuse.ceph')
            allocate (cephfs_keeper :: keeper)
            name = 'CephFS'
        case ('gpfs')       ! its program is on no user's PATH
            allocate (keeper, source=gpfs_keeper(command_lines=[character(64) :: &
                'mmlsattr -L', '/usr/lpp/mmfs/bin/mmlsattr -L']))
            name = 'GPFS'
        case ('beegfs')     ! its newer program and its older one
            allocate (keeper, source=told_keeper(command_lines=[character(64) :: &
                'beegfs entry info', 'beegfs-ctl --getentryinfo']))
            name = 'BeeGFS'
        case ('nfs')
            allocate (remote_keeper :: keeper)
            name = 'NFS ('//mounted%type//')'
        case ('wekafs')
            allocate (remote_keeper :: keeper)
            name = 'Weka'
        case ('fuse.daos', 'fuse.dfuse')
            allocate (remote_keeper :: keeper)
            name = 'DAOS (dfuse)'
        case default
            allocate (layout_keeper :: keeper)
        end select
        keeper%filesystem = name
        keeper%mounted = mounted
    end subroutine choose_layout_keeper

    subroutine observe_remote(self, path, bytes, seen, error)
        class(remote_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes
        type(file_layout), intent(out) :: seen
        character(:), allocatable, intent(out) :: error

        call self%layout_keeper%observe(path, bytes, seen, error)
        seen%said = self%mounted%entry
        seen%is_known = seen%said /= ''
    end subroutine observe_remote

    !> Asks the program. It may be for administrators alone: then nothing is known, and that is no
    !> error.
    subroutine observe_told(self, path, bytes, seen, error)
        class(told_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes
        type(file_layout), intent(out) :: seen
        character(:), allocatable, intent(out) :: error

        character(:), allocatable :: problem
        integer :: i

        call self%layout_keeper%observe(path, bytes, seen, error)
        do i = 1, size(self%command_lines)
            call run_program(blanks_to_words(self%command_lines(i))//path//achar(0), seen%said, &
                problem)
            if (problem == '') exit
            seen%said = ''
        end do
        seen%is_known = seen%said /= ''
    end subroutine observe_told

    subroutine observe_gpfs(self, path, bytes, seen, error)
        class(gpfs_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes
        type(file_layout), intent(out) :: seen
        character(:), allocatable, intent(out) :: error

        character(*), parameter :: pool = 'storage pool name:'
        character(:), allocatable :: line
        integer :: at

        call self%told_keeper%observe(path, bytes, seen, error)
        seen%is_known = .true.
        seen%holder%stripe_size = self%mounted%block_bytes
        at = index(seen%said, pool)
        if (at == 0) return
        line = seen%said(at + len(pool):)
        seen%holder%pool = adjustl(line(:index(line//new_line('a'), new_line('a')) - 1))
    end subroutine observe_gpfs

end module benchio_other_layouts
