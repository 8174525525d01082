!> The options of a run, which of them exclude each other, and the plan of the array.
module benchio_options
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_access, only: element_bytes
    use benchio_decomposition, only: automatic_grid, fits_in_int64, max_extent
    use benchio_file_layout, only: layout_request, name_length
    use benchio_settings, only: io_settings
    use benchio_text, only: decimal, extents
    implicit none (type, external)
    private

    public :: check_options, layout_requests, leave_array_out, plan_array

    !> Options of how the elements are moved.
    character(*), parameter, public :: options_of_access(*) = [character(21) :: '--order', &
        '--steps', '--variables', '--deflate', '--quantize', '--nonblocking', '--subfiles']

    !> A word of --operation.
    type, public :: operation_word
        character(13) :: name
        character(400) :: help = ''
        character(40) :: options = ''               !! that only some words take, and this does
        logical :: is_alone = .true.                !! no other word is beside it
    contains
        procedure :: takes
    end type operation_word

    !> The options of a run; the command line has the defaults, and completes them.
    type, public :: options
        character(8), allocatable :: backends(:)
        character(10), allocatable :: operations(:) !! that are timed, each a case
        logical, allocatable :: reads(:)            !! whether a case shows caches what it reads
        character(13), allocatable :: words(:)      !! of --operation; then what the result says
        type(operation_word) :: word                !! the first of them
        logical :: keeps = .false.                  !! its files: write-keep
        logical :: reads_existing = .false.         !! files that another run has kept
        integer :: existing_files = 0               !! that are there already; 0: this run's own
        integer(int64) :: existing_extents(3) = 0   !! elements of the one that this rank reads
        integer :: items = 0                        !! of each rank, where there is no array
        integer(int64) :: sample_bytes = 0
        integer :: per_file = 1                     !! samples of a file
        integer :: seconds = 0                      !! of a round, for latency
        integer(int64) :: local_size(3) = 0         !! elements of each writer; 0: strong scaling
        integer(int64) :: global_size(3) = 0        !! elements of the array; 0 until planned
        integer(int64) :: grid(3) = 0               !! 0: automatic until planned
        integer(int64) :: halo = 0
        integer :: instances = 0
        integer :: repeats = 0
        integer :: warmup = 0
        integer :: phase_limit = 0                  !! seconds
        integer :: time_limit = 0                   !! seconds; 0: none
        integer :: settle = 0                       !! seconds
        integer(int64) :: keep_corrupt = 0          !! bytes of wrong files that may stay
        character(:), allocatable :: files          !! shared, process, node, gather or a number
        character(:), allocatable :: directory
        character(:), allocatable :: filesystems    !! allowed names, comma list; empty: any
        character(:), allocatable :: json           !! empty: no result file
        character(:), allocatable :: environment    !! names of the job's variables, comma list
        character(:), allocatable :: run_id         !! empty: a random one
        logical :: phase_barrier = .false.
        logical :: dry_run = .false.
        logical :: help = .false.
        logical :: version = .false.
        logical :: tells_filesystem = .false.
        type(io_settings) :: settings
        type(layout_request) :: layout
        integer :: mdt_index = -1                   !! less than 0: any
        character(name_length), allocatable :: targets(:)   !! none: one layout for all
    end type options

    !> Which options were given, by their names in the order of the help, and why they are refused.
    type, public :: given_options
        character(21), allocatable :: names(:)
        character(:), allocatable :: error          !! empty, or a sentence
    contains
        procedure :: refuse
        procedure :: has
        procedure :: first_of
    end type given_options

contains

    !> Refuses options that exclude each other whatever is done, and settles what they say of
    !> others.
    subroutine check_options(choice, given)
        type(options), intent(inout) :: choice
        type(given_options), intent(inout) :: given

        associate (words => choice%layout%setstripe)
            call given%refuse(given%has('--local-size') .and. given%has('--global-size'), &
                '--local-size and --global-size exclude each other')
            ! A file of the user's would be laid out as well.
            call given%refuse(words /= '' .and. words(1:1) /= '-', '--setstripe takes options of ' &
                //'`lfs setstripe`, such as "-c 4 -S 1M", not "'//trim(words)//'"')
            call given%refuse(words /= '' .and. given%first_of([character(14) :: '--stripe-count', &
                '--stripe-size', '--pool']) /= '', '--setstripe excludes --stripe-count, ' &
                //'--stripe-size and --pool: its words say that')
            call given%refuse(given%has('--targets') .and. given%first_of([character(14) :: &
                '--stripe-count', '--pool', '--setstripe', '--mdt-index']) /= '', &
                '--targets excludes the other layout options but --stripe-size')
        end associate
        choice%settings%outlives_failures = size(choice%targets) > 0
        if (given%has('--global-size')) choice%local_size = 0
    end subroutine check_options

    !> Settles what an operation without an array leaves of the options: its plan is that of the
    !> smallest array there can be.
    subroutine leave_array_out(choice, given)
        type(options), intent(inout) :: choice
        type(given_options), intent(inout) :: given

        character(*), parameter :: of_arrays(*) = [character(21) :: '--local-size', &
            '--global-size', '--grid', '--halo', '--instances', '--transfer', '--collective', &
            '--flush', '--hint', '--chunk', '--alignment', '--collective-metadata', &
            '--file-format', '--direct', '--phase-barrier', '--targets', options_of_access]

        call given%refuse(given%first_of(of_arrays) /= '', '--operation ' &
            //trim(choice%words(1))//' writes no array: leave out ' &
            //given%first_of(of_arrays))
        if (.not. given%has('--backend')) choice%backends = [character(8) :: 'posix']
        choice%operations = [character(10) :: choice%words]
        allocate (choice%reads(size(choice%words)), source=.false.)
        choice%settings%has_no_array = .true.
        choice%local_size = 1
        choice%halo = 0
    end subroutine leave_array_out

    elemental logical function takes(self, option)
        class(operation_word), intent(in) :: self
        character(*), intent(in) :: option

        takes = index(' '//self%options, ' '//trim(option)//' ') > 0
    end function takes

    !> Notes a reason to refuse the options; the first that there is stays.
    subroutine refuse(self, there_is, reason)
        class(given_options), intent(inout) :: self
        logical, intent(in) :: there_is
        character(*), intent(in) :: reason

        if (there_is .and. self%error == '') self%error = reason
    end subroutine refuse

    pure logical function has(self, name)
        class(given_options), intent(in) :: self
        character(*), intent(in) :: name

        has = any(self%names == name)
    end function has

    !> Returns the first option given that is one of these; empty if none is.
    pure function first_of(self, names) result(name)
        class(given_options), intent(in) :: self
        character(*), intent(in) :: names(:)
        character(:), allocatable :: name

        integer :: i

        name = ''
        do i = size(self%names), 1, -1
            if (any(names == self%names(i))) name = trim(self%names(i))
        end do
    end function first_of

    !> Returns the layouts that are asked for: one for all files, or one for each of --targets.
    pure function layout_requests(choice) result(requests)
        type(options), intent(in) :: choice
        type(layout_request), allocatable :: requests(:)

        integer :: i

        allocate (requests(max(1, size(choice%targets))), source=choice%layout)
        do i = 1, size(choice%targets)
            requests(i)%target = choice%targets(i)
        end do
    end function layout_requests

    !> Completes grid and global size for a number of writers; error is empty or a sentence.
    subroutine plan_array(choice, writers, error)
        type(options), intent(inout) :: choice
        integer(int64), intent(in) :: writers
        character(:), allocatable, intent(out) :: error

        integer(int64) :: layers, planes, aspect(3)
        logical :: grid_fits, is_weak

        error = ''
        is_weak = all(choice%local_size > 0)
        layers = choice%settings%access%layers()
        planes = merge(choice%local_size(3), choice%global_size(3), is_weak)
        if (mod(planes, layers) /= 0) then
            error = choice%settings%access%text()//' deals out the elements along z, and ' &
                //decimal(planes)//' are no multiple of '//decimal(layers)
            return
        end if
        if (choice%settings%access%has_rows()) choice%grid = [writers, 1_int64, 1_int64]
        ! Blocks of equal extents have equal surface: the grid is then to be near a cube.
        aspect = merge([writers, writers, writers], choice%global_size/[1_int64, 1_int64, layers], &
            is_weak)
        if (all(choice%grid == 0)) choice%grid = automatic_grid(writers, aspect)
        if (all(choice%grid == 0)) then
            error = 'more ranks ('//decimal(writers)//') than any grid over '// &
                extents(choice%global_size)//' elements can use'
            return
        end if
        grid_fits = fits_in_int64(choice%grid)      ! .and. need not stop at the first operand
        if (grid_fits) grid_fits = product(choice%grid) == writers
        if (.not. grid_fits) then
            error = '--grid '//extents(choice%grid)//' does not multiply to '//decimal(writers)// &
                ' ranks'
            return
        end if
        if (is_weak) choice%global_size = choice%local_size*choice%grid
        if (any(choice%grid > choice%global_size/[1_int64, 1_int64, layers])) then
            error = '--grid '//extents(choice%grid)//' has more ranks than the '// &
                extents(choice%global_size)//' elements along a dimension'
        else if (any(choice%global_size + 2*choice%halo > max_extent)) then
            error = 'an extent of '//extents(choice%global_size)//' with its halo is above 2^31 - 1'
        else if (.not. fits_in_int64([choice%global_size + 2*choice%halo*choice%grid, &
                int(element_bytes, int64)])) then
            error = extents(choice%global_size)//' elements are more bytes than 2^63 - 1'
        end if
    end subroutine plan_array

end module benchio_options
