!> What is asked of a run, what excludes what, and the plan of the array.
module benchio_options
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_decomposition, only: automatic_grid, element_bytes, fits_in_int64, max_extent
    use benchio_file_layout, only: layout_request, name_length, unset
    use benchio_settings, only: io_settings
    use benchio_text, only: decimal, extents
    implicit none (type, external)
    private

    public :: check_options, is_metadata, layout_requests, plan_array

    !> What was asked for; complete once the command line is parsed, which has the defaults.
    type, public :: options
        character(8), allocatable :: backends(:)
        character(8), allocatable :: operations(:)  !! that are timed: write, read; metadata
        logical :: keeps = .false.                  !! what is written: write-keep
        logical :: reads_existing = .false.         !! what another run has kept: read-existing
        !> (x y z, file): elements of each file that is there already; not allocated: none is.
        integer(int64), allocatable :: existing_extents(:, :)
        integer :: items = 0                        !! of each rank, for metadata
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
        character(:), allocatable :: files          !! shared, process, node, gather or a number
        character(:), allocatable :: directory
        character(:), allocatable :: filesystems    !! allowed names, comma list; empty: any
        character(:), allocatable :: json           !! empty: no result file
        character(:), allocatable :: run_id         !! empty: a random one
        logical :: phase_barrier = .false.
        logical :: dry_run = .false.
        logical :: help = .false.
        logical :: version = .false.
        type(io_settings) :: settings
        type(layout_request) :: layout
        integer :: mdt_index = -1                   !! less than 0: any
        character(name_length), allocatable :: targets(:)   !! none: one layout for all
    end type options

contains

    !> Whether the options that were given go together, and what they settle for each other; error
    !> is empty or one sentence.
    subroutine check_options(choice, given, error)
        type(options), intent(inout) :: choice
        character(*), intent(in) :: given(:)        !! names, in the order of the help
        character(:), allocatable, intent(inout) :: error

        if (all(choice%global_size > 0)) then
            if (any(given == '--local-size')) then
                error = '--local-size and --global-size exclude each other'
                return
            end if
            choice%local_size = 0
        end if
        call check_layout_options(choice, error)
        choice%settings%outlives_failures = size(choice%targets) > 0
        if (error == '') call check_access(choice, error)
        if (error == '') call check_existing(choice, given, error)
        if (error == '') call check_metadata(choice, given, error)
    end subroutine check_options

    !> What excludes what of the options on layouts.
    pure subroutine check_layout_options(choice, error)
        type(options), intent(in) :: choice
        character(:), allocatable, intent(inout) :: error

        associate (layout => choice%layout)
            if (layout%setstripe /= '' .and. layout%setstripe(1:1) /= '-') then
                ! A file of the user's would be laid out as well.
                error = '--setstripe takes options of `lfs setstripe`, such as "-c 4 -S 1M", ' &
                    //'not "'//trim(layout%setstripe)//'"'
            else if (layout%setstripe /= '' .and. (layout%stripe_count /= unset .or. &
                layout%stripe_size /= unset .or. layout%pool /= '')) then
                error = '--setstripe excludes --stripe-count, --stripe-size and --pool: its own ' &
                    //'words say that'
            end if
            if (size(choice%targets) == 0) return
            if (layout%stripe_count /= unset .or. layout%pool /= '' .or. layout%setstripe /= '' &
                .or. choice%mdt_index >= 0) then
                error = '--targets excludes the other layout options but --stripe-size'
            end if
        end associate
    end subroutine check_layout_options

    !> Refuses what excludes what of the ways to move the elements and other options.
    pure subroutine check_access(choice, error)
        type(options), intent(in) :: choice
        character(:), allocatable, intent(inout) :: error

        associate (access => choice%settings%access)
            if (access%quantize > 0 .and. access%deflate == 0) then
                error = '--quantize needs --deflate: what is rounded takes as much room'
            else if (access%has_rows() .and. any(choice%grid > 0)) then
                error = '--order '//trim(access%order)//' excludes --grid: the rows of all ' &
                    //'writers lie side by side along x'
            else if (choice%files == 'gather' .and. access%text() /= '') then
                error = '--files gather excludes '//access%text()//': its first rank moves whole ' &
                    //'planes'
            else if (access%subfiles > 0 .and. (choice%files /= 'shared' &
                .or. choice%instances > 1)) then
                error = '--subfiles takes --files shared and one instance: it makes several ' &
                    //'files of one'
            else if (access%subfiles > 0 .and. choice%keeps) then
                error = '--subfiles excludes --operation write-keep: subfiles are not kept'
            end if
        end associate
    end subroutine check_access

    !> What excludes reading files that are there.
    pure subroutine check_existing(choice, given, error)
        type(options), intent(in) :: choice
        character(*), intent(in) :: given(:)        !! names of options
        character(:), allocatable, intent(inout) :: error

        !> What the files that are there have settled, and what only a write can be told.
        character(*), parameter :: settled(*) = [character(21) :: '--files', '--instances', &
            '--local-size', '--global-size', '--repeats', '--warmup', '--settle', '--flush', &
            '--chunk', '--alignment', '--file-format', '--stripe-count', '--stripe-size', &
            '--pool', '--setstripe', '--targets', '--mdt-index', '--order', '--steps', &
            '--variables', '--deflate', '--quantize', '--nonblocking', '--subfiles']
        character(:), allocatable :: name

        if (.not. choice%reads_existing) return
        name = first_given(settled, given)
        if (name /= '') error = '--operation read-existing excludes '//name &
            //': the files are as they were written'
    end subroutine check_existing

    !> What has no meaning for metadata, of the options that were given. It writes no array: the
    !> plan is that of the smallest there can be.
    subroutine check_metadata(choice, given, error)
        type(options), intent(inout) :: choice
        character(*), intent(in) :: given(:)        !! names of options
        character(:), allocatable, intent(inout) :: error

        character(*), parameter :: refused(*) = [character(21) :: '--local-size', '--global-size', &
            '--grid', '--halo', '--instances', '--transfer', '--collective', '--flush', '--hint', &
            '--chunk', '--alignment', '--collective-metadata', '--file-format', '--direct', &
            '--phase-barrier', '--targets', '--order', '--steps', '--variables', '--deflate', &
            '--quantize', '--nonblocking', '--subfiles']
        character(:), allocatable :: name

        if (.not. is_metadata(choice)) then
            if (any(given == '--items')) error = '--items is for --operation metadata'
            return
        end if
        name = first_given(refused, given)
        if (name /= '') then
            error = '--operation metadata writes no array: leave out '//name
        else if (choice%files /= 'shared' .and. choice%files /= 'process') then
            error = '--operation metadata takes --files shared or process, not "'//choice%files//'"'
        end if
        if (first_given(['--backend'], given) == '') choice%backends = [character(8) :: 'posix']
        choice%settings%has_no_array = .true.
        choice%local_size = 1
        choice%halo = 0
    end subroutine check_metadata

    !> The first of the given options that is one of these; empty if none is.
    pure function first_given(names, given) result(name)
        character(*), intent(in) :: names(:), given(:)
        character(:), allocatable :: name

        integer :: i

        name = ''
        do i = size(given), 1, -1
            if (any(names == given(i))) name = trim(given(i))
        end do
    end function first_given

    !> Whether names are measured, and not bytes.
    pure logical function is_metadata(choice)
        type(options), intent(in) :: choice

        is_metadata = choice%operations(1) == 'metadata'
    end function is_metadata

    !> What is asked of the files: the one layout, or one for each of --targets.
    pure function layout_requests(choice) result(requests)
        type(options), intent(in) :: choice
        type(layout_request), allocatable :: requests(:)

        integer :: i

        allocate (requests(max(1, size(choice%targets))), source=choice%layout)
        do i = 1, size(choice%targets)
            requests(i)%target = choice%targets(i)
        end do
    end function layout_requests

    !> Completes grid and global size for a number of writers; error is empty or one sentence.
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
        if (is_weak) choice%global_size = choice%local_size*choice%grid
        if (any(choice%grid > choice%global_size/[1_int64, 1_int64, layers])) then
            error = '--grid '//extents(choice%grid)//' has more writers than the '// &
                extents(choice%global_size)//' elements along a dimension'
        else if (any(choice%global_size + 2*choice%halo > max_extent)) then
            error = 'an extent of '//extents(choice%global_size)//' with its halo is above 2^31 - 1'
        else if (.not. fits_in_int64([choice%global_size + 2*choice%halo*choice%grid, &
                int(element_bytes, int64)])) then
            error = extents(choice%global_size)//' elements are more bytes than 2^63 - 1'
        end if
    end subroutine plan_array

end module benchio_options
