!> Subfiles, which HDF5 makes of one file: what they need, and which they are.
!>
!> HDF5 deals the bytes of the file out in stripes to its subfiles, which take turns. A list beside
!> them says their names, and how large a stripe is. At the path itself is a stub, a copy of the
!> superblock. Names of subfiles and of their list have the path and inode of the stub in them.
module benchio_hdf5_subfiles
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_Query_thread, MPI_THREAD_MULTIPLE
    use benchio_failure, only: exit_io, exit_not_built_in, exit_usage, failure
    use benchio_file_parts, only: file_parts, path_length
    use benchio_hdf5_properties, only: can_subfile, hdf5_version
    use benchio_posix, only: file_size, inode_text
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: find_subfiles, object_to_subfiling

    !> Follows the path in the name of each subfile and of the list.
    character(*), parameter, public :: subfile_mark = '.subfile_'

contains

    !> Says why this build under this MPI makes no subfiles, or would put them elsewhere. HDF5's
    !> other variables, for the size of a stripe and the ranks on a node that write, are allowed:
    !> they only change what is observed.
    subroutine object_to_subfiling(error)
        type(failure), intent(inout) :: error

        character(*), parameter :: refused(3) = [character(37) :: &
            'H5FD_SUBFILING_SUBFILE_PREFIX', 'H5FD_SUBFILING_CONFIG_FILE_PREFIX', &
            'H5FD_SUBFILING_IOC_SELECTION_CRITERIA']
        integer :: i, length, threads

        if (.not. can_subfile) call error%set(exit_not_built_in, '', '', 'HDF5 ' &
            //hdf5_version()//' was built without subfiling: benchio needs one of 1.14 or later ' &
            //'with HDF5_ENABLE_SUBFILING_VFD (Spack: hdf5+subfiling)')
        call MPI_Query_thread(threads)
        if (threads < MPI_THREAD_MULTIPLE) call error%set(exit_not_built_in, '', '', &
            'subfiling needs an MPI with MPI_THREAD_MULTIPLE, for HDF5 uses threads')
        do i = 1, size(refused)
            call get_environment_variable(trim(refused(i)), length=length)
            if (length > 0) call error%set(exit_usage, 'getenv', trim(refused(i)), &
                'this variable is set, and HDF5 would put subfiles elsewhere than in the run''s ' &
                //'directory, or have other ranks write them in each round: unset it')
        end do
    end subroutine object_to_subfiling

    !> Finds the subfiles of a closed file; not collective. It is an error unless there are as many
    !> as were asked for, each with some of the bytes.
    subroutine find_subfiles(path, wanted, file, error)
        character(*), intent(in) :: path
        integer, intent(in) :: wanted               !! subfiles
        type(file_parts), intent(inout) :: file
        type(failure), intent(inout) :: error

        character(:), allocatable :: inode, list, message
        character(path_length) :: paths(wanted + 2) ! the subfiles, the stub, the list
        integer(int64) :: bytes, stripe_size
        integer :: i, subfiles, writers

        call inode_text(path, inode, message)
        if (message /= '') then
            call error%set(exit_io, 'stat', path, message)
            return
        end if
        list = path//subfile_mark//inode//'.config'
        call read_list(list, path(:index(path, '/', back=.true.)), paths, subfiles, writers, &
            stripe_size, message)
        if (message /= '') then
            call error%set(exit_io, 'read', list, message)
            return
        end if
        if (subfiles /= wanted) then
            call error%set(exit_io, 'subfiling', path, 'HDF5 has made '//decimal(subfiles) &
                //' subfile(s), asked for: '//decimal(wanted))
            return
        end if
        do i = 1, subfiles
            call file_size(trim(paths(i)), bytes, message)
            if (message == '' .and. bytes == 0) message = 'the subfile is empty: the array ends ' &
                //'before it in stripes of '//decimal(stripe_size)//' bytes; make it ' &
                //'larger, or the stripes smaller by H5FD_SUBFILING_STRIPE_SIZE'
            if (message /= '') call error%set(exit_io, 'stat', trim(paths(i)), message)
        end do
        paths(subfiles + 1) = path
        paths(subfiles + 2) = list
        call file%name_parts(paths, subfiles, writers, stripe_size)
    end subroutine find_subfiles

    !> Reads the list beside the subfiles: lines of KEY=VALUE, then their names in order. Names for
    !> which there is no room are only counted.
    subroutine read_list(list, directory, paths, subfiles, writers, stripe_size, message)
        character(*), intent(in) :: list
        character(*), intent(in) :: directory       !! of all of them, with the last slash
        character(*), intent(inout) :: paths(:)
        integer, intent(out) :: subfiles, writers   !! files; ranks that write them for all
        integer(int64), intent(out) :: stripe_size  !! bytes
        character(:), allocatable, intent(out) :: message   !! empty on success

        character(path_length) :: line
        character(512) :: reason
        integer :: code, equals, names, unit

        message = ''
        subfiles = 0
        writers = 0
        stripe_size = 0
        open (newunit=unit, file=list, status='old', action='read', iostat=code, iomsg=reason)
        if (code /= 0) then
            message = trim(reason)
            return
        end if
        names = 0
        do
            read (unit, '(a)', iostat=code) line
            if (code /= 0) exit
            equals = index(line, '=')
            select case (line(:max(0, equals - 1)))
            case ('stripe_size')
                read (line(equals + 1:), *, iostat=code) stripe_size
            case ('aggregator_count')
                read (line(equals + 1:), *, iostat=code) writers
            case ('subfile_count')
                read (line(equals + 1:), *, iostat=code) subfiles
            case ('')
                names = names + 1
                if (names <= size(paths)) paths(names) = directory//trim(line)
            case default        ! of the whole, which is known
            end select
            if (code /= 0) exit
        end do
        close (unit)
        if (names == 0 .or. names /= subfiles .or. stripe_size <= 0) message = &
            'this is no list of subfiles as HDF5 makes one'
    end subroutine read_list

end module benchio_hdf5_subfiles
