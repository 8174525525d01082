!> The command line: one table of options, and how their values are read.
!>
!> The table alone knows the names, the help and the defaults. A default is parsed like any other
!> value, before the command line is.
module benchio_command_line
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_MAX_INFO_KEY, MPI_MAX_INFO_VAL
    use benchio_access, only: parse_access
    use benchio_decomposition, only: element_bytes, max_extent
    use benchio_file_layout, only: name_length
    use benchio_options, only: check_options, options
    use benchio_settings, only: hint
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: help_text, parse_command_line, parse_options

    !> One command-line argument.
    type, public :: argument
        character(:), allocatable :: text
    end type argument

    !> A row of the table; one without a name is a heading.
    type :: option
        character(21) :: name
        character(15) :: value          !! what it takes, in a word; empty: it is a switch
        character(400) :: help
        character(8) :: default = ''    !! as on the command line; empty: help says what happens
    end type option

    type(option), parameter :: table(*) = [ &
        option('', '', 'What is written'), &
        option('--backend', 'LIST', 'libraries to write through: mpiio, hdf5, netcdf, pnetcdf, ' &
            //'posix; several take turns, in an order that changes with each round', 'mpiio'), &
        option('--operation', 'LIST', 'write, read, or write,read; for read alone, the files are ' &
            //'first written untimed; write-keep instead of write leaves the run''s directory ' &
            //'with the files of all measured rounds; read-existing reads each of them, once, ' &
            //'from the directory that is DIR then. metadata: no array, but many small files ' &
            //'and directories, which are made, found, renamed and removed', 'write'), &
        option('--files', 'LAYOUT', 'shared: one file for all; process or node: one for each; a ' &
            //'number: so many, for equal groups of writers; gather: one, which rank 0 ' &
            //'writes. Of metadata, one directory for all (shared) or for each (process)', &
            'shared'), &
        option('--items', 'N', 'number of small files, and of directories, of each writer; for ' &
            //'--operation metadata', '1000'), &
        option('--instances', 'K', 'number of equal groups of writers, each a benchmark of its ' &
            //'own', '1'), &
        option('--local-size', 'N|NxNxN', 'elements of each writer along x, y, z: weak ' &
            //'scaling', '128'), &
        option('--global-size', 'N|NxNxN', 'elements of the whole array: strong scaling'), &
        option('--grid', 'PxQxR', 'number of writers of a file along x, y, z (automatic)'), &
        option('--halo', 'N', 'width of the halo in memory, which is never written', '1'), &
        option('--run-id', 'TEXT', 'name of the run''s directory, and part of every value that ' &
            //'is written: up to 64 of A-Z a-z 0-9 _ - (16 random digits)'), &
        option('', '', 'How it is measured'), &
        option('--repeats', 'N', 'number of rounds that are measured', '10'), &
        option('--warmup', 'N', 'number of rounds before them, marked and not counted', '1'), &
        option('--settle', 'SECONDS', 'time to wait after files are removed, before the next are ' &
            //'written', '0'), &
        option('--phase-barrier', '', 'let all ranks, not only those of one file, wait for each ' &
            //'other after each phase'), &
        option('--phase-limit', 'SECONDS', 'a phase, or the time between two phases, that takes ' &
            //'longer counts as a hang and ends the run', '1800'), &
        option('--time-limit', 'SECONDS', 'begin no round after this time, nor after SIGUSR1 or ' &
            //'SIGTERM (none)'), &
        option('', '', 'How the libraries are asked to work'), &
        option('--transfer', 'SIZE', 'size of the largest piece that is moved in one call: ' &
            //'bytes, or such as 64KiB, 4MiB, 1GiB', '1GiB'), &
        option('--pattern', 'LIST', 'how the elements are moved: strided or random (rows of all ' &
            //'writers take turns in the file), steps=N, variables=N (that x, y, z are dealt out ' &
            //'to), deflate=LEVEL, quantize=DIGITS, nonblocking, subfiling=N', 'blocks'), &
        option('--collective', 'yes|no', 'transfer the data collectively', 'yes'), &
        option('--flush', '', 'call the library''s own flush before the close, timed as a phase ' &
            //'of its own'), &
        option('--hint', 'KEY=VALUE', 'a hint for MPI-IO; may be repeated'), &
        option('--chunk', 'N|NxNxN', 'elements of a chunk; hdf5 and netcdf only (contiguous)'), &
        option('--alignment', 'BYTES', 'alignment of the objects in the file; hdf5 and pnetcdf ' &
            //'only', '1'), &
        option('--collective-metadata', 'yes|no', 'let one rank read and write the metadata; ' &
            //'hdf5 only', 'yes'), &
        option('--file-format', 'earliest|latest', 'oldest or newest version of the file format; ' &
            //'hdf5 only', 'earliest'), &
        option('--direct', '', 'bypass the page cache with O_DIRECT; posix only'), &
        option('', '', 'How files are laid out. On Lustre any of these replaces the whole layout ' &
            //'that DIR gives'//new_line('a')//'its files, a progressive one too: what is not ' &
            //'said is the filesystem''s default. On'//new_line('a')//'CephFS what is not said ' &
            //'stays as in DIR.'), &
        option('--stripe-count', 'N', 'number of OSTs of a file; on Lustre -1 is all of them, or ' &
            //'of the pool; Lustre and CephFS only'), &
        option('--stripe-size', 'SIZE', 'size of a stripe: bytes, or such as 64KiB, 4MiB; Lustre ' &
            //'and CephFS only'), &
        option('--pool', 'NAME', 'pool of OSTs on Lustre, data pool on CephFS'), &
        option('--setstripe', 'OPTIONS', 'in place of these, words for `lfs setstripe` in one ' &
            //'argument, such as "-E 64M -c 1 -E -1 -c 4"; Lustre only'), &
        option('--targets', 'LIST', 'measure each of these by itself, with one stripe, in turns ' &
            //'in every round: numbers of OSTs on Lustre, pools on CephFS. One that fails is ' &
            //'left out from then on; mpiio and posix only'), &
        option('', '', 'Where'), &
        option('--dir', 'DIR', 'an existing directory, in which the run makes one of its ' &
            //'own', '.'), &
        option('--fs-type', 'LIST', 'refuse to run unless DIR is on one of these filesystems, ' &
            //'named as statfs names them'), &
        option('--mdt-index', 'N', 'metadata target of the run''s directory; Lustre only'), &
        option('--json', 'FILE', 'write the results to this file, in the format ' &
            //'benchio.result/3'), &
        option('', '', ''), &
        option('--dry-run', '', 'say what would be written and how much room there is'), &
        option('--version', '', 'print the version of benchio and of the libraries in it'), &
        option('--help', '', 'print this text')]

    !> Columns of the help: all, and those before an option's explanation.
    integer, parameter :: help_width = 88, help_indent = 24

    !> Of numbers whose only bound is sense.
    integer(int64), parameter :: max_count = 1000000
    integer(int64), parameter :: max_items = 9999999    !! their numbers in names have 7 digits

    !> Of an operand that is a whole number.
    interface parse_number
        module procedure parse_int, parse_int64
    end interface parse_number

contains

    !> What --help prints.
    function help_text() result(text)
        character(:), allocatable :: text

        character(1), parameter :: lf = new_line('a')
        character(:), allocatable :: explanation
        integer :: i

        text = 'Usage: mpirun -n P benchio [options]'//lf//lf &
            //'Writes 3D arrays that are spread over the ranks in blocks, has every byte read ' &
            //'back'//lf//'by an independent reader, the witness, and only then reports a ' &
            //'bandwidth in MiB/s'//lf//'(MiB = 2^20 bytes).'//lf
        do i = 1, size(table)
            if (table(i)%name == '') then
                text = text//lf
                if (table(i)%help /= '') text = text//trim(table(i)%help)//lf
                cycle
            end if
            explanation = trim(table(i)%help)
            if (table(i)%default /= '') explanation = explanation//' ('//trim(table(i)%default)//')'
            text = text//filled('  '//trim(trim(table(i)%name)//' '//table(i)%value), explanation)
        end do
        text = text//lf//'Exit status: 0 all is well, 1 internal error, 2 wrong usage, ' &
            //'3 I/O error, 4 wrong data,'//lf//'5 time limit, 6 a feature that was not built ' &
            //'in.'//lf
    end function help_text

    !> An option and, in a column of its own, its explanation, broken between words.
    pure function filled(name, explanation) result(text)
        character(*), intent(in) :: name, explanation
        character(:), allocatable :: text

        character(:), allocatable :: line, rest, word
        integer :: blank

        text = ''
        line = name
        rest = explanation
        if (rest /= '') line = line//repeat(' ', &
            merge(help_indent - 1 - len(name), 1, len(name) < help_indent))
        do while (rest /= '')
            blank = index(rest//' ', ' ')
            word = rest(:blank - 1)
            rest = rest(min(blank, len(rest)) + 1:)
            if (len(line) + 1 + len(word) > help_width) then
                text = text//line//new_line('a')
                line = repeat(' ', help_indent - 1)
            end if
            line = line//' '//word
        end do
        text = text//line//new_line('a')
    end function filled

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

    !> Options of a list of arguments, "--name value" or "--name=value"; error is empty or one
    !> sentence.
    subroutine parse_options(arguments, choice, error)
        type(argument), intent(in) :: arguments(:)
        type(options), intent(out) :: choice
        character(:), allocatable, intent(out) :: error

        character(:), allocatable :: name, value
        logical :: value_given
        logical :: given(size(table))
        integer :: equals, i, row

        error = ''
        choice%filesystems = ''
        choice%json = ''
        choice%run_id = ''
        allocate (choice%settings%hints(0), choice%targets(0))
        do row = 1, size(table)
            if (table(row)%default == '') cycle
            call set_option(choice, trim(table(row)%name), trim(table(row)%default), error)
        end do

        name = ''
        value = ''
        given = .false.
        i = 1
        do while (i <= size(arguments) .and. error == '')
            name = arguments(i)%text
            equals = index(name, '=')
            value_given = index(name, '--') == 1 .and. equals > 0
            value = ''
            if (value_given) then
                value = name(equals + 1:)
                name = name(:equals - 1)
            end if
            if (name == '-h') name = '--help'

            row = 0     ! headings have no name, and so has an empty argument
            if (name /= '') row = findloc(table%name == name, .true., 1)
            if (row == 0) then
                error = 'unknown argument "'//name//'"; see benchio --help'
            else if (table(row)%value == '') then
                if (value_given) error = name//' takes no value'
            else
                if (.not. value_given) then
                    i = i + 1
                    if (i <= size(arguments)) value = arguments(i)%text
                end if
                if (value == '') error = name//' needs a value'
            end if
            if (error == '') call set_option(choice, name, value, error)
            if (error == '') given(row) = .true.
            i = i + 1
        end do

        if (error == '') call check_options(choice, pack(table%name, given), error)
    end subroutine parse_options

    !> One option of the table, with a value unless it is a switch.
    subroutine set_option(choice, name, value, error)
        type(options), intent(inout) :: choice
        character(*), intent(in) :: name, value
        character(:), allocatable, intent(inout) :: error

        integer(int64), parameter :: max_stripes = 65535, max_stripe = 2_int64**32 - 65536
        integer(int64), parameter :: max_transfer = 2_int64**30     ! more crashes some ROMIO
        integer :: i

        select case (name)
        case ('--backend')
            call parse_list(name, value, choice%backends, error)
        case ('--operation')
            call parse_operations(name, value, choice, error)
        case ('--items')
            call parse_number(name, value, 1_int64, max_items, choice%items, error)
        case ('--files')
            call parse_files(name, value, choice%files, error)
        case ('--instances')
            call parse_number(name, value, 1_int64, max_count, choice%instances, error)
        case ('--local-size')
            call parse_extents(name, value, .true., choice%local_size, error)
        case ('--global-size')
            call parse_extents(name, value, .true., choice%global_size, error)
        case ('--grid')
            call parse_extents(name, value, .false., choice%grid, error)
        case ('--halo')
            call parse_number(name, value, 0_int64, max_count, choice%halo, error)
        case ('--run-id')
            call parse_run_id(name, value, choice%run_id, error)
        case ('--repeats')
            call parse_number(name, value, 1_int64, max_count, choice%repeats, error)
        case ('--warmup')
            call parse_number(name, value, 0_int64, max_count, choice%warmup, error)
        case ('--settle')
            call parse_number(name, value, 0_int64, max_count, choice%settle, error)
        case ('--phase-barrier')
            choice%phase_barrier = .true.
        case ('--phase-limit')
            call parse_number(name, value, 1_int64, max_count, choice%phase_limit, error)
        case ('--time-limit')
            call parse_number(name, value, 1_int64, max_count, choice%time_limit, error)
        case ('--transfer')
            call parse_size(name, value, int(element_bytes, int64), max_transfer, &
                choice%settings%transfer_bytes, error)
        case ('--pattern')
            call parse_access(value, choice%settings%access, error)
        case ('--collective')
            call parse_one_of(name, value, 'yes', 'no', choice%settings%collective, error)
        case ('--flush')
            choice%settings%flush = .true.
        case ('--hint')
            call add_hint(name, value, choice%settings%hints, error)
        case ('--stripe-count')
            if (value == '-1') then
                choice%layout%stripe_count = -1
            else
                call parse_number(name, value, 1_int64, max_stripes, choice%layout%stripe_count, &
                    error)
            end if
        case ('--stripe-size')
            call parse_size(name, value, 65536_int64, max_stripe, choice%layout%stripe_size, error)
        case ('--pool')
            call check_name(name, value, error)
            choice%layout%pool = value
        case ('--setstripe')
            call parse_setstripe(name, value, choice%layout%setstripe, error)
        case ('--targets')
            call parse_list(name, value, choice%targets, error)
            do i = 1, size(choice%targets)
                if (error == '') call check_name(name, trim(choice%targets(i)), error)
            end do
        case ('--mdt-index')
            call parse_number(name, value, 0_int64, max_stripes, choice%mdt_index, error)
        case ('--chunk')
            call parse_extents(name, value, .true., choice%settings%chunk, error)
        case ('--alignment')
            call parse_number(name, value, 1_int64, max_extent, choice%settings%alignment, error)
        case ('--collective-metadata')
            call parse_one_of(name, value, 'yes', 'no', choice%settings%collective_metadata, error)
        case ('--file-format')
            call parse_one_of(name, value, 'latest', 'earliest', choice%settings%latest_format, &
                error)
        case ('--direct')
            choice%settings%direct = .true.
        case ('--dir')
            choice%directory = value
        case ('--fs-type')
            choice%filesystems = value
        case ('--json')
            choice%json = value
        case ('--dry-run')
            choice%dry_run = .true.
        case ('--version')
            choice%version = .true.
        case ('--help')
            choice%help = .true.
        case default
            error stop 'benchio: an option of the table is not parsed'
        end select
    end subroutine set_option

    !> What is timed, of which files.
    subroutine parse_operations(name, value, choice, error)
        character(*), intent(in) :: name, value
        type(options), intent(inout) :: choice
        character(:), allocatable, intent(inout) :: error

        character(13), allocatable :: words(:)

        call parse_list(name, value, words, error)
        if (error /= '') return
        choice%keeps = any(words == 'write-keep')
        choice%reads_existing = any(words == 'read-existing')
        if (choice%reads_existing .and. size(words) == 1) then
            words = 'read'
        else
            where (words == 'write-keep') words = 'write'
        end if
        if ((any(words /= 'write' .and. words /= 'read') .or. count(words == 'write') > 1) &
            .and. value /= 'metadata') then
            error = name//' takes write or write-keep, read, or both, or read-existing or ' &
                //'metadata alone, not "'//value//'"'
        end if
        choice%operations = [character(8) :: words]
    end subroutine parse_operations

    !> A layout's name, or a number of files.
    subroutine parse_files(name, value, files, error)
        character(*), intent(in) :: name, value
        character(:), allocatable, intent(out) :: files
        character(:), allocatable, intent(inout) :: error

        integer(int64) :: number

        files = value
        if (any(value == [character(7) :: 'shared', 'process', 'node', 'gather'])) return
        call parse_number(name, value, 1_int64, max_count, number, error)
        if (error /= '') error = name//' takes shared, process, node, gather or a number of ' &
            //'files, not "'//value//'"'
        files = decimal(number)
    end subroutine parse_files

    !> A part of a directory's name and of the pattern's key, so what may be in it is bounded.
    subroutine parse_run_id(name, value, run_id, error)
        character(*), intent(in) :: name, value
        character(:), allocatable, intent(out) :: run_id
        character(:), allocatable, intent(inout) :: error

        integer, parameter :: longest = 64
        character(*), parameter :: allowed = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ' &
            //'abcdefghijklmnopqrstuvwxyz0123456789_-'

        run_id = value
        if (len(value) > longest .or. verify(value, allowed) > 0) then
            error = name//' takes 1 to '//decimal(longest)//' of A-Z a-z 0-9 _ -, not "'//value//'"'
        end if
    end subroutine parse_run_id

    !> Bytes, or KiB, MiB or GiB.
    subroutine parse_size(name, value, least, most, bytes, error)
        character(*), intent(in) :: name, value
        integer(int64), intent(in) :: least, most
        integer(int64), intent(out) :: bytes
        character(:), allocatable, intent(inout) :: error

        character(3), parameter :: units(3) = ['KiB', 'MiB', 'GiB']
        integer(int64) :: unit
        integer :: digits, power

        digits = len(value)
        power = 0
        if (digits > 3) power = findloc(units == value(max(1, digits - 2):), .true., 1)
        if (power > 0) digits = digits - 3
        unit = 1024_int64**power
        call parse_number(name, value(:digits), 1_int64, most/unit, bytes, error)
        bytes = bytes*unit
        if (error /= '' .or. bytes < least) then
            error = name//' takes '//decimal(least)//' to '//decimal(most)//' bytes, as 65536, ' &
                //'64KiB, 4MiB or 1GiB, not "'//value//'"'
        end if
    end subroutine parse_size

    !> A pool or target, which becomes the name of a directory.
    subroutine check_name(name, value, error)
        character(*), intent(in) :: name, value
        character(:), allocatable, intent(inout) :: error

        character(*), parameter :: allowed = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ' &
            //'abcdefghijklmnopqrstuvwxyz0123456789_-.'

        if (len(value) > name_length .or. verify(value, allowed) > 0) then
            error = name//' takes names of at most '//decimal(name_length) &
                //' of A-Z a-z 0-9 _ - ., not "'//value//'"'
        end if
    end subroutine check_name

    !> A first word that is no option would be a file of the user's, and be laid out as well.
    subroutine parse_setstripe(name, value, words, error)
        character(*), intent(in) :: name, value
        character(*), intent(out) :: words
        character(:), allocatable, intent(inout) :: error

        words = adjustl(value)
        if (words(1:1) /= '-' .or. len(value) > len(words)) then
            error = name//' takes at most '//decimal(len(words))//' characters of options for ' &
                //'`lfs setstripe`, such as "-c 4 -S 1M", not "'//value//'"'
        end if
    end subroutine parse_setstripe

    !> MPI takes blanks around a hint off, and aborts the run for one that is empty or too long.
    subroutine add_hint(name, value, hints, error)
        character(*), intent(in) :: name, value
        type(hint), allocatable, intent(inout) :: hints(:)
        character(:), allocatable, intent(inout) :: error

        integer :: equals

        equals = index(value, '=')
        if (value(:max(0, equals - 1)) == '' .or. value(equals + 1:) == '') then
            error = name//' takes KEY=VALUE, not "'//value//'"'
        else if (equals - 1 > MPI_MAX_INFO_KEY .or. len(value) - equals > MPI_MAX_INFO_VAL) then
            error = name//' takes at most '//decimal(MPI_MAX_INFO_KEY)//' characters of KEY and ' &
                //decimal(MPI_MAX_INFO_VAL)//' of VALUE, not "'//value//'"'
        else
            hints = [hints, hint(value(:equals - 1), value(equals + 1:))]
        end if
    end subroutine add_hint

    !> One of two words; the first is true.
    subroutine parse_one_of(name, value, yes, no, chosen, error)
        character(*), intent(in) :: name, value, yes, no
        logical, intent(out) :: chosen
        character(:), allocatable, intent(inout) :: error

        chosen = value == yes
        if (value /= yes .and. value /= no) then
            error = name//' takes '//yes//' or '//no//', not "'//value//'"'
        end if
    end subroutine parse_one_of

    !> A comma list of names, each once; whether they exist is the caller's to say.
    subroutine parse_list(name, value, names, error)
        character(*), intent(in) :: name, value
        character(*), allocatable, intent(out) :: names(:)
        character(:), allocatable, intent(inout) :: error

        character(:), allocatable :: item, rest
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
            names = [character(len(names)) :: names, item]
        end do
    end subroutine parse_list

    !> "N", if one is allowed for all three, or "NxNxN"; each is from 1 to 2^31 - 1.
    subroutine parse_extents(name, value, cube_allowed, numbers, error)
        character(*), intent(in) :: name, value
        logical, intent(in) :: cube_allowed
        integer(int64), intent(out) :: numbers(3)
        character(:), allocatable, intent(inout) :: error

        character(:), allocatable :: rest
        integer :: cross, i

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

    !> Least and most fit in a default integer.
    subroutine parse_int(name, value, least, most, number, error)
        character(*), intent(in) :: name, value
        integer(int64), intent(in) :: least, most
        integer, intent(out) :: number
        character(:), allocatable, intent(inout) :: error

        integer(int64) :: long

        call parse_int64(name, value, least, most, long, error)
        number = int(long)
    end subroutine parse_int

    !> Decimal digits alone: a sign, a point or an exponent is none of a whole number's.
    subroutine parse_int64(name, value, least, most, number, error)
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
    end subroutine parse_int64

end module benchio_command_line
