!> What the user asked for: the command line, checked.
module benchio_options
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_decomposition, only: automatic_grid, element_bytes, fits_in_int64, max_extent
    use benchio_text, only: decimal, extents
    implicit none (type, external)
    private

    public :: help_text, parse_command_line, parse_options, plan_array

    !> One command-line argument.
    type, public :: argument
        character(:), allocatable :: text
    end type argument

    type, public :: options
        character(8), allocatable :: backends(:)
        integer(int64) :: local_size(3) = 128       !! elements of each writer; 0: strong scaling
        integer(int64) :: global_size(3) = 0        !! elements of the array; 0 until planned
        integer(int64) :: grid(3) = 0               !! 0: automatic until planned
        integer(int64) :: halo = 1
        integer(int64) :: seed = 1
        integer :: repeats = 10
        integer :: warmup = 1
        integer :: phase_limit = 1800               !! seconds
        character(:), allocatable :: sync           !! none or data
        character(:), allocatable :: verify         !! all, last or none
        character(:), allocatable :: directory
        character(:), allocatable :: filesystems    !! allowed names, comma list; empty: any
        character(:), allocatable :: json           !! empty: no result file
        logical :: keep = .false.
        logical :: dry_run = .false.
        logical :: help = .false.
        logical :: version = .false.
    end type options

    character(*), parameter :: lines(*) = [character(88) :: &
        'Usage: mpirun -n P benchio [options]', &
        '', &
        'Writes a 3D block-distributed array to one shared file, reads it back, compares every', &
        'byte, and only then reports a bandwidth (MiB/s, MiB = 2^20 bytes).', &
        '', &
        'What is written', &
        '  --backend LIST        mpiio, hdf5, netcdf; a comma list in rotated rounds (mpiio)', &
        '  --local-size N|NxNxN  elements per writer along x, y, z: weak scaling (128)', &
        '  --global-size N|NxNxN elements of the whole array: strong scaling', &
        '  --grid PxQxR          writers along x, y, z (automatic)', &
        '  --halo N              halo width in memory, never written (1)', &
        '  --seed N              of the data (1)', &
        '', &
        'How it is measured', &
        '  --repeats N           measured rounds (10)', &
        '  --warmup N            rounds before them, marked and not counted (1)', &
        '  --sync none|data      data: force it to stable storage, timed as its own phase (data)', &
        '  --verify all|last|none  rounds read back; none: times but no bandwidth (all)', &
        '  --phase-limit SECONDS a phase that takes longer is a hang and ends the run (1800)', &
        '', &
        'Where', &
        '  --dir DIR             existing directory for the files (.)', &
        '  --fs-type LIST        refuse unless DIR is on one of these, as statfs names it', &
        '  --json FILE           result file, format benchio.result/1', &
        '  --keep                leave the files of the last round', &
        '', &
        '  --dry-run             say what would be written and what room there is', &
        '  --version, --help', &
        '', &
        'Exit status: 0 ok, 1 internal, 2 usage, 3 I/O error, 4 verification, 5 time limit,', &
        '6 feature not built in.']

contains

    function help_text() result(text)
        character(:), allocatable :: text

        integer :: i

        text = ''
        do i = 1, size(lines)
            text = text//trim(lines(i))//new_line('a')
        end do
    end function help_text

    !> Options of this process's command line; error is empty or one sentence.
    subroutine parse_command_line(choice, error)
        type(options), intent(out) :: choice
        character(:), allocatable, intent(out) :: error

        type(argument), allocatable :: arguments(:)
        integer :: i, length

        allocate (arguments(command_argument_count()))
        do i = 1, size(arguments)
            call get_command_argument(i, length=length)
            allocate (character(length) :: arguments(i)%text)
            if (length > 0) call get_command_argument(i, arguments(i)%text)
        end do
        call parse_options(arguments, choice, error)
    end subroutine parse_command_line

    !> Options of a list of arguments, "--name value" or "--name=value".
    subroutine parse_options(arguments, choice, error)
        type(argument), intent(in) :: arguments(:)
        type(options), intent(out) :: choice
        character(:), allocatable, intent(out) :: error

        character(:), allocatable :: name, value
        logical :: local_given, has_value
        integer :: i, equals

        error = ''
        choice%backends = [character(8) :: 'mpiio']
        choice%sync = 'data'
        choice%verify = 'all'
        choice%directory = '.'
        choice%filesystems = ''
        choice%json = ''
        local_given = .false.

        i = 1
        do while (i <= size(arguments) .and. error == '')
            name = arguments(i)%text
            equals = index(name, '=')
            has_value = index(name, '--') == 1 .and. equals > 0
            value = ''
            if (has_value) then
                value = name(equals + 1:)
                name = name(:equals - 1)
            end if

            select case (name)
            case ('--keep', '--dry-run', '--help', '-h', '--version')
                if (has_value) error = name//' takes no value'
                call set_switch(choice, name)
            case ('--backend', '--local-size', '--global-size', '--grid', '--halo', '--seed', &
                    '--repeats', '--warmup', '--phase-limit', '--sync', '--verify', '--dir', &
                    '--fs-type', '--json')
                if (.not. has_value) then
                    i = i + 1
                    if (i <= size(arguments)) value = arguments(i)%text
                end if
                if (value == '') then
                    error = name//' needs a value'
                else
                    call set_value(choice, name, value, error)
                end if
                local_given = local_given .or. name == '--local-size'
            case default
                error = 'unknown argument "'//name//'"; see benchio --help'
            end select
            i = i + 1
        end do

        if (error == '' .and. all(choice%global_size > 0)) then
            if (local_given) error = '--local-size and --global-size exclude each other'
            choice%local_size = 0
        end if
    end subroutine parse_options

    !> Completes grid and global size for a number of writers.
    subroutine plan_array(choice, writers, error)
        type(options), intent(inout) :: choice
        integer(int64), intent(in) :: writers
        character(:), allocatable, intent(out) :: error

        integer(int64) :: shape(3)
        logical :: grid_fits, weak

        error = ''
        weak = all(choice%local_size > 0)
        ! Blocks of equal extents have equal surface: the grid is then to be near a cube.
        shape = merge([writers, writers, writers], choice%global_size, weak)
        if (all(choice%grid == 0)) choice%grid = automatic_grid(writers, shape)
        if (all(choice%grid == 0)) then
            error = 'more writers ('//decimal(writers)//') than any grid over '// &
                extents(choice%global_size)//' elements can use'
            return
        end if
        grid_fits = fits_in_int64(choice%grid)      ! .and. need not stop at the first operand
        if (grid_fits) grid_fits = product(choice%grid) == writers
        if (.not. grid_fits) then
            error = '--grid '//extents(choice%grid)//' does not multiply to '//decimal(writers)// &
                ' writers'
            return
        end if
        if (weak) choice%global_size = choice%local_size*choice%grid
        if (any(choice%grid > choice%global_size)) then
            error = '--grid '//extents(choice%grid)//' has more writers than the '// &
                extents(choice%global_size)//' elements along a dimension'
        else if (any(choice%global_size + 2*choice%halo > max_extent)) then
            error = 'an extent of '//extents(choice%global_size)//' with its halo is above 2^31 - 1'
        else if (.not. fits_in_int64([choice%global_size + 2*choice%halo*choice%grid, &
                int(element_bytes, int64)])) then
            error = extents(choice%global_size)//' elements are more bytes than 2^63 - 1'
        end if
    end subroutine plan_array

    subroutine set_switch(choice, name)
        type(options), intent(inout) :: choice
        character(*), intent(in) :: name

        select case (name)
        case ('--keep')
            choice%keep = .true.
        case ('--dry-run')
            choice%dry_run = .true.
        case ('--version')
            choice%version = .true.
        case default
            choice%help = .true.
        end select
    end subroutine set_switch

    subroutine set_value(choice, name, value, error)
        type(options), intent(inout) :: choice
        character(*), intent(in) :: name, value
        character(:), allocatable, intent(inout) :: error

        integer(int64), parameter :: max_count = 1000000
        integer(int64) :: number

        select case (name)
        case ('--backend')
            call parse_list(name, value, choice%backends, error)
        case ('--local-size')
            call parse_extents(name, value, .true., choice%local_size, error)
        case ('--global-size')
            call parse_extents(name, value, .true., choice%global_size, error)
        case ('--grid')
            call parse_extents(name, value, .false., choice%grid, error)
        case ('--halo')
            call parse_number(name, value, 0_int64, max_count, choice%halo, error)
        case ('--seed')
            call parse_number(name, value, 0_int64, max_extent, choice%seed, error)
        case ('--repeats')
            call parse_number(name, value, 1_int64, max_count, number, error)
            choice%repeats = int(number)
        case ('--warmup')
            call parse_number(name, value, 0_int64, max_count, number, error)
            choice%warmup = int(number)
        case ('--phase-limit')
            call parse_number(name, value, 1_int64, max_count, number, error)
            choice%phase_limit = int(number)
        case ('--sync')
            choice%sync = value
            if (all(value /= [character(4) :: 'none', 'data'])) then
                error = '--sync takes none or data, not "'//value//'"'
            end if
        case ('--verify')
            choice%verify = value
            if (all(value /= [character(4) :: 'all', 'last', 'none'])) then
                error = '--verify takes all, last or none, not "'//value//'"'
            end if
        case ('--dir')
            choice%directory = value
        case ('--fs-type')
            choice%filesystems = value
        case default    ! --json
            choice%json = value
        end select
    end subroutine set_value

    !> A comma list of names, each once; whether they exist is the registry's to say.
    subroutine parse_list(name, value, names, error)
        character(*), intent(in) :: name, value
        character(8), allocatable, intent(out) :: names(:)
        character(:), allocatable, intent(inout) :: error

        character(:), allocatable :: rest, item
        integer :: comma

        allocate (names(0))
        rest = value//','
        do while (len(rest) > 0)
            comma = index(rest, ',')
            item = rest(:comma - 1)
            rest = rest(comma + 1:)
            if (item == '') then
                error = name//' has an empty name in "'//value//'"'
            else if (len(item) > len(names)) then
                error = name//' does not know "'//item//'"'
            else if (any(names == item)) then
                error = name//' names "'//item//'" twice'
            end if
            if (error /= '') return
            names = [character(8) :: names, item]
        end do
    end subroutine parse_list

    !> "N", if one is allowed for all three, or "NxNxN"; each 1 to 2^31 - 1.
    subroutine parse_extents(name, value, cube_allowed, numbers, error)
        character(*), intent(in) :: name, value
        logical, intent(in) :: cube_allowed
        integer(int64), intent(out) :: numbers(3)
        character(:), allocatable, intent(inout) :: error

        character(:), allocatable :: rest
        integer :: i, cross

        numbers = 0
        if (cube_allowed .and. index(value, 'x') == 0) then
            call parse_number(name, value, 1_int64, max_extent, numbers(1), error)
            numbers = numbers(1)
            return
        end if
        rest = value
        do i = 1, 3
            cross = index(rest//'x', 'x')
            call parse_number(name, rest(:cross - 1), 1_int64, max_extent, numbers(i), error)
            if (error /= '' .or. (i < 3 .and. cross > len(rest)) &
                .or. (i == 3 .and. cross <= len(rest))) then
                error = name//' takes '//trim(merge('N or NxNxN', 'PxQxR     ', cube_allowed))// &
                    ' with numbers from 1 to 2147483647, not "'//value//'"'
                return
            end if
            rest = rest(min(cross, len(rest)) + 1:)
        end do
    end subroutine parse_extents

    subroutine parse_number(name, value, least, most, number, error)
        character(*), intent(in) :: name, value
        integer(int64), intent(in) :: least, most
        integer(int64), intent(out) :: number
        character(:), allocatable, intent(inout) :: error

        number = -1
        if (len(value) > 0 .and. len(value) <= 18 .and. verify(value, '0123456789') == 0) then
            read (value, *) number
        end if
        if (number < least .or. number > most) then
            error = name//' takes a whole number from '//decimal(least)//' to '//decimal(most)// &
                ', not "'//value//'"'
            number = least
        end if
    end subroutine parse_number

end module benchio_options
