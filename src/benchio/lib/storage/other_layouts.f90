!> Filesystems on which benchio sets no layouts, and which filesystem it is that a run is on.
!>
!> Some have a program that tells how a file is laid out: its words are kept as they are. Of a
!> mounted server that tells its clients nothing, the mount table's entry is all that is known.
module benchio_other_layouts
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_cephfs, only: cephfs_keeper
    use benchio_file_layout, only: file_layout, layout_keeper
    use benchio_filesystem, only: served_name
    use benchio_lustre, only: lustre_keeper
    use benchio_mount, only: mounted_filesystem
    use benchio_program, only: blanks_to_words, run_program
    implicit none (type, external)
    private

    public :: choose_layout_keeper

    !> A filesystem that says how a file is laid out by a program: the first of these command lines
    !> that runs. Without any, its entry in the mount table is what it says.
    type, extends(layout_keeper) :: other_keeper
        private
        character(64) :: command_lines(2) = ''  !! without the path
        character(32) :: before_pool = ''       !! the program's words before the pool of a file
    contains
        procedure :: observe
    end type other_keeper

    !> GlusterFS, of which any server may be asked for a volume.
    type, extends(layout_keeper) :: gluster_keeper
    contains
        procedure :: identity
    end type gluster_keeper

contains

    !> The volume.
    function identity(self) result(text)
        class(gluster_keeper), intent(in) :: self
        character(:), allocatable :: text

        text = served_name(self%mounted%source)
    end function identity

    !> Chooses the keeper for the filesystem of a directory. A filesystem in user space is known by
    !> its entry in the mount table alone. (No function: gfortran 12 assigns its result to freed
    !> memory.)
    subroutine choose_layout_keeper(filesystem, mounted, keeper)
        character(*), intent(in) :: filesystem      !! its type's name
        type(mounted_filesystem), intent(in) :: mounted
        class(layout_keeper), allocatable, intent(out) :: keeper

        type(other_keeper) :: teller
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
            teller%command_lines = [character(64) :: &
                'mmlsattr -L', '/usr/lpp/mmfs/bin/mmlsattr -L']
            teller%before_pool = 'storage pool name:'
            allocate (keeper, source=teller)
            name = 'GPFS'
        case ('beegfs')     ! its newer program and its older one
            teller%command_lines = [character(64) :: &
                'beegfs entry info', 'beegfs-ctl --getentryinfo']
            allocate (keeper, source=teller)
            name = 'BeeGFS'
        case ('nfs')
            allocate (other_keeper :: keeper)
            name = 'NFS ('//mounted%type//')'
        case ('wekafs')
            allocate (other_keeper :: keeper)
            name = 'Weka'
        case ('fuse.daos', 'fuse.dfuse')
            allocate (other_keeper :: keeper)
            name = 'DAOS (dfuse)'
        case ('fuse.glusterfs')
            allocate (gluster_keeper :: keeper)
        case default
            allocate (layout_keeper :: keeper)
        end select
        keeper%filesystem = name
        keeper%type = filesystem
        keeper%mounted = mounted
    end subroutine choose_layout_keeper

    !> Asks the program. It may be for administrators alone: then nothing is known, and that is no
    !> error. A program that names a pool is that of GPFS, where a stripe is a block.
    subroutine observe(self, path, bytes, seen, error)
        class(other_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes
        type(file_layout), intent(out) :: seen
        character(:), allocatable, intent(out) :: error

        character(:), allocatable :: line, problem
        integer :: at, i

        call self%layout_keeper%observe(path, bytes, seen, error)
        if (self%command_lines(1) == '') seen%said = self%mounted%source//' '//self%mounted%type &
            //' '//self%mounted%options
        do i = 1, size(self%command_lines)
            if (self%command_lines(i) == '' .or. seen%said /= '') exit
            call run_program(blanks_to_words(self%command_lines(i))//path//achar(0), seen%said, &
                problem)
            if (problem /= '') seen%said = ''
        end do
        seen%is_known = seen%said /= '' .or. self%before_pool /= ''
        if (self%before_pool == '') return
        seen%holder%stripe_size = self%mounted%block_bytes
        at = index(seen%said, trim(self%before_pool))
        if (at == 0) return
        line = seen%said(at + len_trim(self%before_pool):)
        seen%holder%pool = adjustl(line(:index(line//new_line('a'), new_line('a')) - 1))
    end subroutine observe

end module benchio_other_layouts
