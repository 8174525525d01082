!> Options that each backend refuses, and those that it leaves to the others.
program test_backends
    use mpi_f08, only: MPI_Finalize, MPI_Init
    use benchio_access, only: access_pattern
    use benchio_command_line, only: parse_options
    use benchio_failure, only: exit_ok, exit_usage, failure
    use benchio_options, only: options
    use benchio_registry, only: backend_item, backend_names, new_backend
    use check, only: expect
    use command_lines, only: words
    implicit none (type, external)

    integer :: i

    call MPI_Init()
    do i = 1, size(backend_names)
        call accepted(trim(backend_names(i)), '--chunk 8')
        call accepted(trim(backend_names(i)), '--steps 2')
    end do
    call refused('mpiio', '--deflate 1', 'leave out --deflate')
    call refused('posix', '--deflate 1', 'leave out --deflate')
    call refused('pnetcdf', '--deflate 1', 'does not compress')
    call refused('adios2', '--deflate 1', 'leave out --deflate')
    call refused('adios2', '--alignment 4096', 'aligns nothing')
    call accepted('adios2', '--subfiles 2 --steps 2')
    call refused('hdf5', '--deflate 1 --quantize 3', 'decimal digits')
    call refused('hdf5', '--deflate 1 --collective no', 'collective transfers alone')
    call refused('netcdf', '--deflate 1 --collective no', 'collective transfers alone')
    call refused('netcdf', '--steps 2 --collective no', 'unlimited dimension')
    call refused('pnetcdf', '--steps 2 --collective no', 'unlimited dimension')
    call refused('pnetcdf', '--nonblocking --collective no', 'collectively')
    call refused('netcdf', '--alignment 4096', 'aligns nothing')
    call refused('hdf5', '--subfiles 2 --steps 2', 'excludes --steps, --deflate')
    call refused('hdf5', '--subfiles 2 --deflate 1', 'excludes --steps, --deflate')
    do i = 1, size(backend_names)
        select case (backend_names(i))
        case ('mpiio', 'posix')
            call accepted(trim(backend_names(i)), '--targets 1')
        case default
            call refused(trim(backend_names(i)), '--targets 1', 'after a write that failed')
        end select
        if (backend_names(i) == 'posix') then
            call accepted(trim(backend_names(i)), '--operation metadata')
        else
            call refused(trim(backend_names(i)), '--operation metadata', 'leave --backend out')
        end if
    end do
    call expect_heeded('hdf5', subfiles=2)
    call expect_heeded('adios2', subfiles=2)
    call expect_heeded('pnetcdf', nonblocking=.true.)
    call expect_heeded('mpiio')
    call expect_heeded('netcdf')
    call expect_heeded('posix')
    call expect_path('posix', is_accepted=.true.)
    call expect_path('mpiio', is_accepted=.false.)
    call expect_path('hdf5', is_accepted=.false.)
    call expect_path('netcdf', is_accepted=.false.)
    call expect_path('adios2', is_accepted=.true.)
    call MPI_Finalize()

contains

    !> Returns what a backend objects to these options; not called for one that is not built in.
    type(failure) function objection(item, line)
        type(backend_item), intent(in) :: item
        character(*), intent(in) :: line

        character(:), allocatable :: error
        type(options) :: choice

        call parse_options(words(line//' --backend '//item%method%name), choice, error)
        call expect(error == '', item%method%name//': parsed: '//error)
        objection = item%method%objection(choice%settings)
    end function objection

    subroutine accepted(name, line)
        character(*), intent(in) :: name, line

        type(backend_item) :: item
        type(failure) :: error

        item = new_backend(name)
        if (.not. allocated(item%method)) return
        error = objection(item, line)
        if (error%status == exit_ok) error%message = ''
        call expect(error%status == exit_ok, name//' accepts '//line//': '//error%message)
    end subroutine accepted

    subroutine refused(name, line, reason)
        character(*), intent(in) :: name, line, reason

        type(backend_item) :: item
        type(failure) :: error

        item = new_backend(name)
        if (.not. allocated(item%method)) return
        error = objection(item, line)
        call expect(error%status == exit_usage, name//' refuses '//line)
        call expect(index(error%message, reason) > 0, name//' refuses '//line//' for '//reason &
            //': '//error%message)
    end subroutine refused

    !> Expects what a backend takes over of subfiling and nonblocking transfers.
    subroutine expect_heeded(name, subfiles, nonblocking)
        character(*), intent(in) :: name
        integer, intent(in), optional :: subfiles
        logical, intent(in), optional :: nonblocking

        type(backend_item) :: item

        item = new_backend(name)
        if (.not. allocated(item%method)) return
        associate (access => item%method%heeded(access_pattern(is_nonblocking=.true., subfiles=2, &
            steps=3)))
            call expect(access%steps == 3, name//': steps are every library''s')
            call expect((access%subfiles == 2) .eqv. present(subfiles), name//': subfiles')
            call expect(access%is_nonblocking .eqv. present(nonblocking), name//': nonblocking')
        end associate
    end subroutine expect_heeded

    subroutine expect_path(name, is_accepted)
        character(*), intent(in) :: name
        logical, intent(in) :: is_accepted

        type(backend_item) :: item

        item = new_backend(name)
        if (.not. allocated(item%method)) return
        call expect(item%method%path_objection('/a/b') == '', name//': a usual path')
        call expect((item%method%path_objection('/a:b/c') == '') .eqv. is_accepted, &
            name//': a path with a colon')
        call expect((item%method%path_objection('/a\b') == '') .eqv. &
            all(name /= ['netcdf', 'adios2']), name//': a path with a backslash')
    end subroutine expect_path

end program test_backends
