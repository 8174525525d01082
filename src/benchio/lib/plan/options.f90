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

    public :: check_options, is_latency, is_learning, is_metadata, layout_requests, plan_array

    !> The options of a run; the command line has the defaults, and completes them.
    type, public :: options
        character(8), allocatable :: backends(:)
        !> That are timed: write, read; or checkpoint, restart; or by itself metadata, samples,
        !> startup or latency.
        character(10), allocatable :: operations(:)
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

contains

    !> Refuses options that exclude each other, and settles what they say of others; error is empty
    !> or a sentence. Metadata have no array: their plan is that of the smallest there can be.
    subroutine check_options(choice, given, error)
        type(options), intent(inout) :: choice
        character(*), intent(in) :: given(:)        !! names, in the order of the help
        character(:), allocatable, intent(inout) :: error

        character(*), parameter :: of_access(*) = [character(21) :: '--order', '--steps', &
            '--variables', '--deflate', '--quantize', '--nonblocking', '--subfiles']
        !> Options that files which are there have settled, or that only a write has.
        character(*), parameter :: of_writes(*) = [character(21) :: '--files', '--instances', &
            '--local-size', '--global-size', '--repeats', '--warmup', '--settle', '--flush', &
            '--chunk', '--alignment', '--file-format', '--stripe-count', '--stripe-size', &
            '--pool', '--setstripe', '--targets', '--mdt-index', of_access]
        character(*), parameter :: of_arrays(*) = [character(21) :: '--local-size', &
            '--global-size', '--grid', '--halo', '--instances', '--transfer', '--collective', &
            '--flush', '--hint', '--chunk', '--alignment', '--collective-metadata', &
            '--file-format', '--direct', '--phase-barrier', '--targets', of_access]

        associate (access => choice%settings%access, words => choice%layout%setstripe)
            call refuse(has('--local-size') .and. has('--global-size'), &
                '--local-size and --global-size exclude each other')
            ! A file of the user's would be laid out as well.
            call refuse(words /= '' .and. words(1:1) /= '-', '--setstripe takes options of `lfs ' &
                //'setstripe`, such as "-c 4 -S 1M", not "'//trim(words)//'"')
            call refuse(words /= '' .and. (has('--stripe-count') .or. has('--stripe-size') &
                .or. has('--pool')), '--setstripe excludes --stripe-count, --stripe-size and ' &
                //'--pool: its words say that')
            call refuse(has('--targets') .and. (has('--stripe-count') .or. has('--pool') &
                .or. words /= '' .or. has('--mdt-index')), &
                '--targets excludes the other layout options but --stripe-size')
            call refuse(access%quantize > 0 .and. access%deflate == 0, &
                '--quantize needs --deflate: what is rounded takes as much room')
            call refuse(access%has_rows() .and. has('--grid'), '--order '//trim(access%order) &
                //' excludes --grid: the rows of all ranks lie side by side along x')
            call refuse(choice%files == 'gather' .and. access%text() /= '', '--files gather ' &
                //'excludes '//access%text()//': its first rank moves whole planes')
            call refuse(access%subfiles > 0 .and. (choice%files /= 'shared' &
                .or. choice%instances > 1), '--subfiles takes --files shared and one instance: ' &
                //'it makes several files of one')
            call refuse(access%subfiles > 0 .and. choice%keeps, &
                '--subfiles excludes --operation write-keep: subfiles are not kept')
        end associate
        call refuse(choice%reads_existing .and. first_of(of_writes) /= '', '--operation ' &
            //'read-existing excludes '//first_of(of_writes) &
            //': the files are as they were written')
        call refuse(has('--items') .and. .not. (is_metadata(choice) .or. is_learning(choice)), &
            '--items is for --operation metadata, samples, startup and checkpoint')
        call refuse(has('--sample') .and. all(choice%operations(1) /= [character(10) :: &
            'samples', 'checkpoint']), '--sample is for --operation samples and checkpoint')
        call refuse(has('--per-file') .and. choice%operations(1) /= 'samples', &
            '--per-file is for --operation samples')
        call refuse(has('--seconds') .and. .not. is_latency(choice), &
            '--seconds is for --operation latency')
        choice%settings%outlives_failures = size(choice%targets) > 0
        if (has('--global-size')) choice%local_size = 0
        if (.not. (is_metadata(choice) .or. is_learning(choice) .or. is_latency(choice))) return

        call refuse(first_of(of_arrays) /= '', '--operation '//trim(choice%operations(1)) &
            //' writes no array: leave out '//first_of(of_arrays))
        call refuse(is_metadata(choice) .and. all(choice%files /= [character(7) :: 'shared', &
            'process']), '--operation metadata takes --files shared or process, not "' &
            //choice%files//'"')
        call refuse(is_latency(choice) .and. has('--files'), '--operation latency has one rank: ' &
            //'leave out --files')
        call refuse(is_learning(choice) .and. has('--files'), '--operation ' &
            //trim(choice%operations(1))//' has files of its own: leave out --files')
        call refuse(mod(choice%sample_bytes, int(element_bytes, int64)) /= 0, &
            '--sample takes a multiple of 8 bytes')
        if (.not. has('--backend')) choice%backends = [character(8) :: 'posix']
        choice%settings%has_no_array = .true.
        choice%local_size = 1
        choice%halo = 0

    contains

        !> Notes the first reason that there is.
        subroutine refuse(there_is, reason)
            logical, intent(in) :: there_is
            character(*), intent(in) :: reason

            if (there_is .and. error == '') error = reason
        end subroutine refuse

        pure logical function has(name)
            character(*), intent(in) :: name

            has = any(given == name)
        end function has

        !> Returns the first option given that is one of these; empty if none is.
        pure function first_of(names) result(name)
            character(*), intent(in) :: names(:)
            character(:), allocatable :: name

            integer :: i

            name = ''
            do i = size(given), 1, -1
                if (any(names == given(i))) name = trim(given(i))
            end do
        end function first_of

    end subroutine check_options

    !> Whether names are measured, and not bytes.
    pure logical function is_metadata(choice)
        type(options), intent(in) :: choice

        is_metadata = choice%operations(1) == 'metadata'
    end function is_metadata

    !> Whether files are read or written as programs do that learn.
    pure logical function is_learning(choice)
        type(options), intent(in) :: choice

        is_learning = any(choice%operations(1) == [character(10) :: 'samples', 'startup', &
            'checkpoint'])
    end function is_learning

    !> Whether single calls are timed, and not bytes.
    pure logical function is_latency(choice)
        type(options), intent(in) :: choice

        is_latency = choice%operations(1) == 'latency'
    end function is_latency

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
