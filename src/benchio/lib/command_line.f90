!> The command line: a table of options, each with its values, its help and where it is stored.
!>
!> The table alone knows names, help, defaults and bounds. A default is read like any other value,
!> before the command line is.
module benchio_command_line
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_MAX_INFO_KEY, MPI_MAX_INFO_VAL
    use benchio_access, only: element_bytes, max_layers, max_subfiles
    use benchio_decomposition, only: max_extent
    use benchio_file_layout, only: name_length
    use benchio_operations, only: operation_words, settle_operation
    use benchio_options, only: given_options, operation_word, options
    use benchio_registry, only: backend_names
    use benchio_settings, only: hint, io_settings
    use benchio_text, only: decimal, listed
    implicit none (type, external)
    private

    public :: help_text, parse_command_line, parse_options

    !> A command-line argument, or the text of an option.
    type, public :: argument
        character(:), allocatable :: text
    end type argument

    !> A comma list.
    type :: text_list
        character(name_length), allocatable :: items(:)
    end type text_list

    !> An option, or a heading without a name. A value goes to the only pointer that is associated.
    type :: option
        character(21) :: name = ''
        character(22) :: value = ''             !! what it takes, in a word; empty: it is a switch
        character(8) :: default = ''            !! as on the command line; empty: help says it
        character(800) :: help = ''
        integer, pointer :: whole => null()
        integer(int64), pointer :: long => null()
        integer(int64), pointer :: extents(:) => null()
        logical, pointer :: switch => null()
        type(argument), pointer :: text => null()
        type(text_list), pointer :: list => null()
        type(io_settings), pointer :: hints => null()
        integer(int64) :: least = 0, most = 0   !! of a number; most is 0: it takes none
        character(200) :: words = ''            !! that it takes, with | between them
        integer :: longest = huge(1)            !! of a text, or of a name in a list
        character(3) :: signs = ''              !! beside letters and digits; empty: all there are
    end type option

    type :: option_table
        type(option) :: rows(60)
        integer :: used = 0
        type(argument) :: directory, environment, files, filesystems, json, order, pool, run_id
        type(argument) :: setstripe
        type(text_list) :: backends, operations, targets
    contains
        procedure :: describe
        procedure :: add
    end type option_table

    !> Columns of the help: all, and those before an option's explanation.
    integer, parameter :: help_width = 88, help_indent = 24

    !> Bounds of numbers that only sense bounds, and of those that stand in names with 7 digits.
    integer(int64), parameter :: max_count = 1000000, max_items = 9999999

    !> Of a round, whose calls are all kept until it ends.
    integer(int64), parameter :: max_seconds = 600

    integer(int64), parameter :: max_stripes = 65535, max_stripe = 2_int64**32 - 65536

    !> Bytes of a call: more crashes some ROMIO.
    integer(int64), parameter :: max_transfer = 2_int64**30

    !> Decimal digits: fewer tell too little of the run, file and round that a value is of; a double
    !> has no more.
    integer(int64), parameter :: min_digits = 3, max_digits = 15

    character(*), parameter :: alphanumeric = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ' &
        //'abcdefghijklmnopqrstuvwxyz0123456789'

contains

    !> Fills the table; its rows point into it and into the options.
    subroutine describe(table, choice)
        class(option_table), intent(inout), target :: table
        type(options), intent(inout), target :: choice

        character(:), allocatable :: help, names
        type(operation_word), allocatable :: operations(:)
        integer :: i

        associate (io => choice%settings, access => choice%settings%access, &
            layout => choice%layout)
            call table%add(option(help='What is written'))
            call table%add(option('--backend', 'LIST', 'mpiio', 'libraries to write through: ' &
                //listed(backend_names, 'and')//'; several take turns, in an order that ' &
                //'changes with each round', list=table%backends, longest=8))
            help = ''
            names = ''
            allocate (operations, source=operation_words())
            do i = 1, size(operations)
                names = names//'|'//trim(operations(i)%name)
                if (operations(i)%help /= '') help = help//'. '//trim(operations(i)%help)
            end do
            call table%add(option('--operation', 'LIST', 'write', help(3:), list=table%operations, &
                words=names(2:)))
            call table%add(option('--files', 'LAYOUT', 'shared', 'shared: one file for all; ' &
                //'process or node: one for each; a number: so many, for equal groups of ' &
                //'ranks; gather: one, which rank 0 writes. For metadata, one directory for ' &
                //'all (shared) or for each (process)', text=table%files, words= &
                'shared|process|node|gather', least=1, most=max_count))
            call table%add(option('--items', 'N', '1000', 'number of small files, and of ' &
                //'directories, of each writer, for --operation metadata; of samples that each ' &
                //'rank reads; of files of a tree, for startup; of shards of each rank, for ' &
                //'checkpoint', whole=choice%items, &
                least=1, most=max_items))
            call table%add(option('--sample', 'SIZE', '110KiB', 'size of a sample, or of a ' &
                //'shard; for --operation samples and checkpoint', long=choice%sample_bytes, &
                least=element_bytes, most=max_transfer))
            call table%add(option('--per-file', 'N', '1', 'number of samples in a file; for ' &
                //'--operation samples', whole=choice%per_file, least=1, most=max_items))
            call table%add(option('--seconds', 'S', '120', 'length of a round; for --operation ' &
                //'latency', whole=choice%seconds, least=1, most=max_seconds))
            call table%add(option('--instances', 'K', '1', 'number of equal groups of ranks, ' &
                //'each a benchmark by itself', whole=choice%instances, least=1, most=max_count))
            call table%add(option('--local-size', 'N|NxNxN', '128', 'elements of each writer ' &
                //'along x, y, z: weak scaling', extents=choice%local_size))
            call table%add(option('--global-size', 'N|NxNxN', '', 'elements of the whole array: ' &
                //'strong scaling', extents=choice%global_size))
            call table%add(option('--grid', 'PxQxR', '', 'number of ranks of a file along x, ' &
                //'y, z (automatic)', extents=choice%grid))
            call table%add(option('--halo', 'N', '1', 'width of the halo in memory, which is ' &
                //'never written', long=choice%halo, most=max_count))
            call table%add(option('--run-id', 'TEXT', '', 'name of the run''s directory, and ' &
                //'part of every value that is written: up to 64 of A-Z a-z 0-9 _ - (16 random ' &
                //'digits)', text=table%run_id, longest=64, signs='_-'))

            call table%add(option(help='How the elements are moved'))
            call table%add(option('--order', 'blocks|strided|random', 'blocks', 'blocks in ' &
                //'large pieces; strided: rows of all ranks take turns along the file; ' &
                //'random: each writer''s rows in a random order as well', text=table%order))
            call table%add(option('--steps', 'N', '1', 'time steps: the elements along z are ' &
                //'dealt out to N steps, appended one by one along an unlimited dimension', &
                whole=access%steps, least=1, most=max_layers))
            call table%add(option('--variables', 'N', '1', 'variables that the elements along z ' &
                //'of each step are dealt out to', whole=access%variables, least=1, &
                most=max_layers))
            call table%add(option('--deflate', 'LEVEL', '', 'compress, with level 1 to 9; hdf5 ' &
                //'and netcdf only', whole=access%deflate, least=1, most=9))
            call table%add(option('--quantize', 'DIGITS', '', 'round to 3 to 15 significant ' &
                //'digits first; needs --deflate; netcdf only', whole=access%quantize, &
                least=min_digits, most=max_digits))
            call table%add(option('--nonblocking', '', '', 'post all transfers of a step, then ' &
                //'wait for them; pnetcdf only', switch=access%is_nonblocking))
            call table%add(option('--subfiles', 'N', '', 'have the library cut the ' &
                //'file into N subfiles: HDF5 where it was built for that, ADIOS2 by as many ' &
                //'aggregators; hdf5 and adios2 only', &
                whole=access%subfiles, least=1, most=max_subfiles))

            call table%add(option(help='How it is measured'))
            call table%add(option('--repeats', 'N', '10', 'number of rounds that are measured', &
                whole=choice%repeats, least=1, most=max_count))
            call table%add(option('--warmup', 'N', '1', 'number of rounds before them, marked ' &
                //'and not counted', whole=choice%warmup, most=max_count))
            call table%add(option('--settle', 'SECONDS', '0', 'time to wait after files are ' &
                //'removed, before the next are written', whole=choice%settle, most=max_count))
            call table%add(option('--phase-barrier', '', '', 'let all ranks, not only those of ' &
                //'one file, wait for each other after each phase', switch=choice%phase_barrier))
            call table%add(option('--phase-limit', 'SECONDS', '1800', 'a phase, or the time ' &
                //'between two phases, that takes longer counts as a hang and ends the run', &
                whole=choice%phase_limit, least=1, most=max_count))
            call table%add(option('--time-limit', 'SECONDS', '', 'leave the round under ' &
                //'way after this time, as after SIGTERM, and begin none after SIGUSR1; a phase ' &
                //'that takes 5 s more is cut off (none)', whole=choice%time_limit, least=1, &
                most=max_count))
            call table%add(option('--keep-corrupt', 'SIZE', '10GiB', 'leave files with wrong ' &
                //'data where they are, as evidence, unless they are larger together; 0: never', &
                long=choice%keep_corrupt, most=huge(0_int64)))

            call table%add(option(help='How the libraries are asked to work'))
            call table%add(option('--transfer', 'SIZE', '1GiB', 'size of the largest piece that ' &
                //'is moved in one call: bytes, or such as 64KiB, 4MiB, 1GiB', &
                long=io%transfer_bytes, least=element_bytes, most=max_transfer))
            call table%add(option('--collective', 'yes|no', 'yes', 'transfer the data ' &
                //'collectively', switch=io%collective))
            call table%add(option('--flush', '', '', 'call the library''s own flush before the ' &
                //'close, timed as a phase by itself', switch=io%flush))
            call table%add(option('--hint', 'KEY=VALUE', '', &
                'a hint for MPI-IO; may be repeated', hints=io))
            call table%add(option('--chunk', 'N|NxNxN', '', 'elements of a chunk; hdf5 and ' &
                //'netcdf only (contiguous)', extents=io%chunk))
            call table%add(option('--alignment', 'BYTES', '1', 'alignment of the objects in the ' &
                //'file; hdf5 and pnetcdf only', long=io%alignment, least=1, most=max_extent))
            call table%add(option('--collective-metadata', 'yes|no', 'yes', 'let one rank read ' &
                //'and write the metadata; hdf5 only', switch=io%collective_metadata))
            call table%add(option('--file-format', 'latest|earliest', 'earliest', 'newest or ' &
                //'oldest version of the file format; hdf5 only', switch=io%latest_format))
            call table%add(option('--direct', '', '', 'bypass the page cache with O_DIRECT; ' &
                //'posix only', switch=io%direct))

            call table%add(option(help='How files are laid out. On Lustre any of these replaces ' &
                //'the whole layout that DIR gives'//new_line('a')//'its files, a progressive ' &
                //'one too: what is not said is the filesystem''s default. On'//new_line('a')// &
                'CephFS what is not said stays as in DIR.'))
            call table%add(option('--stripe-count', 'N', '', 'number of OSTs of a file; on ' &
                //'Lustre -1 is all of them, or of the pool; Lustre and CephFS only', &
                long=layout%stripe_count, words='-1', least=1, most=max_stripes))
            call table%add(option('--stripe-size', 'SIZE', '', 'size of a stripe: bytes, or ' &
                //'such as 64KiB, 4MiB; Lustre and CephFS only', long=layout%stripe_size, &
                least=65536, most=max_stripe))
            call table%add(option('--pool', 'NAME', '', 'pool of OSTs on Lustre, data pool on ' &
                //'CephFS', text=table%pool, longest=name_length, signs='_-.'))
            call table%add(option('--setstripe', 'OPTIONS', '', 'in place of these, words for ' &
                //'`lfs setstripe` in one argument, such as "-E 64M -c 1 -E -1 -c 4"; Lustre ' &
                //'only', text=table%setstripe, longest=len(layout%setstripe)))
            call table%add(option('--targets', 'LIST', '', 'measure each of these by itself, ' &
                //'with one stripe, in turns in every round: numbers of OSTs on Lustre, pools ' &
                //'on CephFS. One that fails is left out from then on; mpiio and posix only', &
                list=table%targets, longest=name_length, signs='_-.'))

            call table%add(option(help='Where'))
            call table%add(option('--dir', 'DIR', '.', 'an existing directory, in which the run ' &
                //'makes its directory', text=table%directory))
            call table%add(option('--fs-type', 'LIST', '', 'refuse to run unless DIR is on one ' &
                //'of these filesystems, named as statfs names them', text=table%filesystems))
            call table%add(option('--mdt-index', 'N', '', 'metadata target of the run''s ' &
                //'directory; Lustre only', whole=choice%mdt_index, most=max_stripes))
            call table%add(option('--environment-of', 'NAMES', '', 'say of these variables of a ' &
                //'job what rank 0 has, and which rank has another value; a value that changes ' &
                //'no I/O is said by a digest', text=table%environment, signs='_,'))
            call table%add(option('--json', 'FILE', '', 'write the results to this file, in the ' &
                //'format benchio.result/3', text=table%json))

            call table%add(option(help=''))
            call table%add(option('--dry-run', '', '', 'say what would be written and how much ' &
                //'room there is', switch=choice%dry_run))
            call table%add(option('--filesystem', '', '', 'print which filesystem DIR is on, its ' &
                //'source, mount point and options; without MPI', switch=choice%tells_filesystem))
            call table%add(option('--version', '', '', 'print the version of benchio and of the ' &
                //'libraries in it', switch=choice%version))
            call table%add(option('--help', '', '', 'print this text', switch=choice%help))
        end associate
    end subroutine describe

    !> Adds a row; one that takes words has them in its value. Texts and lists are empty at first.
    subroutine add(self, row)
        class(option_table), intent(inout) :: self
        type(option), intent(in) :: row

        self%used = self%used + 1
        self%rows(self%used) = row
        if (index(row%value, '|') > 0 .and. .not. associated(row%extents)) then
            self%rows(self%used)%words = row%value
        end if
        if (associated(row%text)) row%text%text = ''
        if (associated(row%list)) allocate (row%list%items(0))
    end subroutine add

    !> Returns what --help prints.
    function help_text() result(text)
        character(:), allocatable :: text

        character(1), parameter :: lf = new_line('a')
        character(:), allocatable :: explanation
        type(options), target :: choice
        type(option_table), target :: table
        integer :: i

        call table%describe(choice)
        text = 'Usage: mpirun -n P benchio [options]'//lf//lf &
            //'Writes 3D arrays that are spread over the ranks in blocks, has every byte read ' &
            //'back'//lf//'by an independent reader, the witness, and only then reports a ' &
            //'bandwidth in MiB/s'//lf//'(MiB = 2^20 bytes).'//lf
        do i = 1, table%used
            associate (row => table%rows(i))
                if (row%name == '') then
                    text = text//lf
                    if (row%help /= '') text = text//trim(row%help)//lf
                    cycle
                end if
                explanation = trim(row%help)
                if (row%default /= '') explanation = explanation//' ('//trim(row%default)//')'
                text = text//filled('  '//trim(trim(row%name)//' '//row%value), explanation)
            end associate
        end do
        text = text//lf//'Exit status: 0 all is well, 1 internal error, 2 wrong usage, ' &
            //'3 I/O error, 4 wrong data,'//lf//'5 time limit or signal, 6 a feature that was ' &
            //'not built in, 7 a library ended the run.'//lf
    end function help_text

    !> Sets an option and, in a column beside it, its explanation, broken between words.
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

    !> Reads this process's command line; error is empty or a sentence.
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

    !> Reads a list of arguments, "--name value" or "--name=value"; error is empty or a sentence.
    subroutine parse_options(arguments, choice, error)
        type(argument), intent(in) :: arguments(:)
        type(options), intent(out), target :: choice
        character(:), allocatable, intent(out) :: error

        character(:), allocatable :: name, value
        type(option_table), target :: table
        type(given_options) :: settled
        logical :: given(size(table%rows)), has_value
        integer :: equals, i, row

        error = ''
        allocate (choice%settings%hints(0))
        call table%describe(choice)
        do row = 1, table%used
            value = trim(table%rows(row)%default)
            if (value /= '') call read_value(table%rows(row), value, error)
        end do

        given = .false.
        i = 1
        do while (i <= size(arguments) .and. error == '')
            name = arguments(i)%text
            value = ''
            equals = index(name, '=')
            has_value = index(name, '--') == 1 .and. equals > 0
            if (has_value) then
                value = name(equals + 1:)
                name = name(:equals - 1)
            end if
            if (name == '-h') name = '--help'
            row = 0     ! headings have no name, and so has an empty argument
            if (name /= '') row = findloc(table%rows%name == name, .true., 1)
            if (row == 0) then
                error = 'unknown argument "'//name//'"; see benchio --help'
                exit
            end if
            if (table%rows(row)%value == '') then
                if (has_value) error = name//' takes no value'
            else
                if (.not. has_value) then
                    i = i + 1
                    if (i <= size(arguments)) value = arguments(i)%text
                end if
                if (value == '') error = name//' needs a value'
            end if
            if (error == '') call read_value(table%rows(row), value, error)
            given(row) = .true.
            i = i + 1
        end do
        ! After an error, too: what an earlier run left in the result file is to go.
        choice%directory = table%directory%text
        choice%files = table%files%text
        choice%environment = table%environment%text
        choice%filesystems = table%filesystems%text
        choice%json = table%json%text
        choice%run_id = table%run_id%text
        choice%layout%pool = table%pool%text
        choice%layout%setstripe = table%setstripe%text
        choice%settings%access%order = table%order%text
        choice%backends = [character(8) :: table%backends%items]
        choice%targets = table%targets%items
        if (error /= '') return
        choice%words = [character(13) :: table%operations%items]
        settled = given_options(pack(table%rows%name, given), '')
        call settle_operation(choice, settled)
        error = settled%error
    end subroutine parse_options

    !> Reads a value to where the option has it; error is empty or a sentence.
    subroutine read_value(row, value, error)
        type(option), intent(in) :: row
        character(*), intent(in) :: value
        character(:), allocatable, intent(inout) :: error

        integer(int64) :: number
        logical :: is_right, is_word

        is_right = is_allowed(row, value)
        is_word = is_right .and. row%words /= ''
        number = 0
        if (row%most > 0 .and. .not. is_word) call read_number(row, value, number, is_right)
        if (associated(row%whole)) then
            row%whole = int(number)
        else if (associated(row%long)) then
            if (is_word) read (value, *) number
            row%long = number
        else if (associated(row%extents)) then
            call read_extents(value, index(row%value, '|') > 0, row%extents, is_right)
        else if (associated(row%switch)) then
            row%switch = value == '' .or. index(row%words, value) == 1
        else if (associated(row%text)) then
            row%text%text = value
            if (number > 0) row%text%text = decimal(number)     ! as it is in names
        else if (associated(row%list)) then
            is_right = .true.
            call read_list(row, value, row%list%items, error)
        else
            call add_hint(value, row%hints%hints, error)
        end if
        if (.not. is_right) error = trim(row%name)//' takes '//wanted(row)//', not "'//value//'"'
    end subroutine read_value

    !> Whether an option takes a text, or a name in a list: one of its words, or if it has none, a
    !> text that is short enough and without other signs.
    pure logical function is_allowed(row, value)
        type(option), intent(in) :: row
        character(*), intent(in) :: value

        if (row%words /= '') then
            is_allowed = index(value, '|') == 0 .and. index('|'//trim(row%words)//'|', &
                '|'//value//'|') > 0
        else
            is_allowed = len(value) <= row%longest .and. (row%signs == '' &
                .or. verify(value, alphanumeric//trim(row%signs)) == 0)
        end if
    end function is_allowed

    !> Says which values an option takes.
    pure function wanted(row) result(text)
        type(option), intent(in) :: row
        character(:), allocatable :: text

        integer :: i

        text = 'at most '//decimal(row%longest)//' characters'
        if (row%signs /= '') text = text//' of A-Z a-z 0-9 and '//trim(row%signs)
        if (row%most > 0) text = 'a whole number from '//decimal(row%least)//' to ' &
            //decimal(row%most)
        if (row%value == 'SIZE') text = decimal(row%least)//' to '//decimal(row%most) &
            //' bytes, as 65536, 64KiB, 4MiB or 1GiB'
        if (associated(row%extents)) text = trim(row%value)//' with numbers from 1 to ' &
            //decimal(max_extent)
        if (row%words == '') return
        if (row%most == 0) text = ''
        if (row%most > 0) text = ' or '//text
        do i = len_trim(row%words), 1, -1
            if (row%words(i:i) == '|') text = ' or '//text
            if (row%words(i:i) /= '|') text = row%words(i:i)//text
        end do
    end function wanted

    !> Reads decimal digits: a sign, a point or an exponent is not part of a whole number. A size
    !> may end with KiB, MiB or GiB.
    pure subroutine read_number(row, value, number, is_right)
        type(option), intent(in) :: row
        character(*), intent(in) :: value
        integer(int64), intent(out) :: number
        logical, intent(out) :: is_right

        character(3), parameter :: units(3) = ['KiB', 'MiB', 'GiB']
        integer(int64) :: unit
        integer :: last, power      ! of the digits; of 1024

        last = len(value)
        power = 0
        if (row%value == 'SIZE' .and. last > 3) then
            power = findloc(units == value(last - 2:), .true., 1)
            if (power > 0) last = last - 3
        end if
        unit = 1024_int64**power
        number = -1
        if (last > 0 .and. last <= 18 .and. verify(value(:last), '0123456789') == 0) then
            read (value(:last), *) number
        end if
        is_right = number >= 0 .and. number <= row%most/unit
        if (is_right) number = number*unit
        is_right = is_right .and. number >= row%least
    end subroutine read_number

    !> Reads "NxNxN", or "N" for all three; each number is from 1 to 2^31 - 1.
    pure subroutine read_extents(value, may_be_cube, numbers, is_right)
        character(*), intent(in) :: value
        logical, intent(in) :: may_be_cube
        integer(int64), intent(out) :: numbers(3)
        logical, intent(out) :: is_right

        integer :: cross, crosses, first, i

        crosses = count([(value(i:i) == 'x', i=1, len(value))])
        first = 1
        do i = 1, crosses + 1
            cross = first - 1 + index(value(first:)//'x', 'x')
            call read_number(option(least=1, most=max_extent), value(first:cross - 1), &
                numbers(min(i, 3)), is_right)
            if (.not. is_right) return
            first = cross + 1
        end do
        if (crosses == 0) numbers = numbers(1)
        is_right = crosses == 2 .or. (crosses == 0 .and. may_be_cube)
    end subroutine read_extents

    !> Reads a comma list of names, each once.
    pure subroutine read_list(row, value, items, error)
        type(option), intent(in) :: row
        character(*), intent(in) :: value
        character(*), allocatable, intent(out) :: items(:)
        character(:), allocatable, intent(inout) :: error

        character(:), allocatable :: item, rest
        integer :: comma

        allocate (items(0))
        rest = value//','
        do while (len(rest) > 0)
            comma = index(rest, ',')
            item = rest(:comma - 1)
            rest = rest(comma + 1:)
            if (item == '') then
                error = trim(row%name)//' has an empty name in "'//value//'"'
            else if (.not. is_allowed(row, item)) then
                error = trim(row%name)//' takes a list of '//wanted(row)//', not "'//item//'"'
            else if (any(items == item)) then
                error = trim(row%name)//' names "'//item//'" twice'
            end if
            if (error /= '') return
            items = [character(len(items)) :: items, item]
        end do
    end subroutine read_list

    !> Adds a hint. MPI takes blanks around it off, and aborts the run if it is empty or too long.
    subroutine add_hint(value, hints, error)
        character(*), intent(in) :: value
        type(hint), allocatable, intent(inout) :: hints(:)
        character(:), allocatable, intent(inout) :: error

        integer :: equals

        equals = index(value, '=')
        if (value(:max(0, equals - 1)) == '' .or. value(equals + 1:) == '') then
            error = '--hint takes KEY=VALUE, not "'//value//'"'
        else if (equals - 1 > MPI_MAX_INFO_KEY .or. len(value) - equals > MPI_MAX_INFO_VAL) then
            error = '--hint takes at most '//decimal(MPI_MAX_INFO_KEY)//' characters of KEY and ' &
                //decimal(MPI_MAX_INFO_VAL)//' of VALUE, not "'//value//'"'
        else
            hints = [hints, hint(value(:equals - 1), value(equals + 1:))]
        end if
    end subroutine add_hint

end module benchio_command_line
