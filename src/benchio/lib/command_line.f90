!> The command line: "--name value" or "--name=value", each checked for itself.
module benchio_command_line
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_MAX_INFO_KEY, MPI_MAX_INFO_VAL
    use benchio_decomposition, only: max_extent
    use benchio_option_value, only: parse_extents, parse_list, parse_number, parse_one_of
    use benchio_options, only: options
    use benchio_settings, only: hint, io_settings
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: parse_command_line, parse_options

    !> One command-line argument.
    type, public :: argument
        character(:), allocatable :: text
    end type argument

contains

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
        choice%files = 'shared'
        choice%operations = [character(8) :: 'write']
        allocate (choice%settings%hints(0))
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
            case ('--keep', '--dry-run', '--phase-barrier', '--help', '-h', '--version')
                if (has_value) error = name//' takes no value'
                call set_switch(choice, name)
            case ('--backend', '--local-size', '--global-size', '--grid', '--halo', '--seed', &
                    '--repeats', '--warmup', '--phase-limit', '--sync', '--verify', '--dir', &
                    '--fs-type', '--json', '--files', '--instances', '--operation', &
                    '--time-limit', '--hint', '--collective', '--chunk', '--alignment', &
                    '--collective-metadata', '--file-format', '--stripe-count', '--stripe-size', &
                    '--stripe-offset')
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

    subroutine set_switch(choice, name)
        type(options), intent(inout) :: choice
        character(*), intent(in) :: name

        select case (name)
        case ('--keep')
            choice%keep = .true.
        case ('--dry-run')
            choice%dry_run = .true.
        case ('--phase-barrier')
            choice%phase_barrier = .true.
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
        case ('--json')
            choice%json = value
        case ('--files')
            choice%files = value
            if (all(value /= [character(7) :: 'shared', 'process', 'node', 'gather'])) then
                call parse_number(name, value, 1_int64, max_count, number, error)
                if (error /= '') error = name//' takes shared, process, node, gather or a number' &
                    //' of files, not "'//value//'"'
                choice%files = decimal(number)
            end if
        case ('--operation')
            call parse_list(name, value, choice%operations, error)
            if (error == '' .and. any(choice%operations /= 'write' .and. &
                choice%operations /= 'read')) then
                error = name//' takes write, read or write,read, not "'//value//'"'
            end if
        case ('--instances')
            call parse_number(name, value, 1_int64, max_count, number, error)
            choice%instances = int(number)
        case ('--time-limit')
            call parse_number(name, value, 1_int64, max_count, number, error)
            choice%time_limit = int(number)
        case default
            call set_library_value(choice, name, value, error)
        end select
    end subroutine set_value

    subroutine set_library_value(choice, name, value, error)
        type(options), intent(inout) :: choice
        character(*), intent(in) :: name, value
        character(:), allocatable, intent(inout) :: error

        select case (name)
        case ('--hint')
            call add_hint(choice%settings, name, value, error)
        case ('--collective')
            call parse_one_of(name, value, 'yes', 'no', choice%settings%collective, error)
        case ('--collective-metadata')
            call parse_one_of(name, value, 'yes', 'no', choice%settings%collective_metadata, error)
        case ('--file-format')
            call parse_one_of(name, value, 'latest', 'earliest', choice%settings%latest_format, &
                error)
        case ('--chunk')
            call parse_extents(name, value, .true., choice%settings%chunk, error)
        case ('--alignment')
            call parse_number(name, value, 1_int64, max_extent, choice%settings%alignment, error)
        case default
            call set_stripes(choice, name, value, error)
        end select
    end subroutine set_library_value

    !> MPI, which takes blanks around them off, aborts the run for a hint that is empty or too long.
    subroutine add_hint(settings, name, value, error)
        type(io_settings), intent(inout) :: settings
        character(*), intent(in) :: name, value
        character(:), allocatable, intent(inout) :: error

        integer :: equals

        equals = index(value, '=')
        if (value(:max(0, equals - 1)) == '' .or. value(equals + 1:) == '') then
            error = name//' takes KEY=VALUE, not "'//value//'"'
        else if (equals - 1 > MPI_MAX_INFO_KEY .or. len(value) - equals > MPI_MAX_INFO_VAL) then
            error = name//' takes at most '//decimal(MPI_MAX_INFO_KEY)//' characters of KEY and ' &
                //decimal(MPI_MAX_INFO_VAL)//' of VALUE, not "'//value//'"'
        else
            settings%hints = [settings%hints, hint(value(:equals - 1), value(equals + 1:))]
        end if
    end subroutine add_hint

    subroutine set_stripes(choice, name, value, error)
        type(options), intent(inout) :: choice
        character(*), intent(in) :: name, value
        character(:), allocatable, intent(inout) :: error

        integer(int64), parameter :: most = 65535
        integer(int64) :: number

        select case (name)
        case ('--stripe-count')
            if (value == '-1') then
                choice%stripes%count = -1
            else
                call parse_number(name, value, 1_int64, most, choice%stripes%count, error)
            end if
        case ('--stripe-size')
            call parse_number(name, value, 1_int64, most, number, error)
            choice%stripes%size = number*2_int64**20
        case default    ! --stripe-offset
            call parse_number(name, value, 0_int64, most, choice%stripes%offset, error)
        end select
    end subroutine set_stripes

end module benchio_command_line
