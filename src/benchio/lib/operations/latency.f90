!> How long a user waits for one call: a round of `--operation latency`.
!>
!> One rank goes through cycles for a given time, at most a hundred a second, so that it takes
!> little of a machine that others use. In each it makes a small file and writes and syncs it, looks
!> at one that it wrote some cycles ago, opens and reads that, and lists their directory. Each of
!> these calls is timed by itself; what lies between them is not.
!>
!> The law holds: a call that fails, or is wrong, ends the run. Each file holds the pattern of this
!> run, round and file, and every byte of every file is read back on a descriptor of its own, after
!> the sync and after its pages were dropped. The listing must have the names that are there.
!> Whether a read came from the page cache all the same is counted: a filesystem in memory has no
!> other place.
module benchio_latency
    use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int32_t, c_int64_t, c_loc, &
        c_null_char
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_failure, only: exit_internal, exit_io, exit_usage, exit_verification, failure
    use benchio_file_layout, only: check_layout
    use benchio_file_task, only: agree_watched
    use benchio_filesystem, only: known_fraction
    use benchio_json_writer, only: json_writer
    use benchio_options, only: given_options, leave_array_out, operation_word, options
    use benchio_pattern, only: content, differences, pattern_key, pattern_value
    use benchio_phases, only: phase_names, phase_time
    use benchio_posix, only: attempt, make_directory, remove_directory, remove_file, text_of
    use benchio_quantiles, only: distribution_of, quantile_names, quantile_parts, quantiles
    use benchio_raw_file, only: c_close, c_drop_pages, c_resident, c_unsynced
    use benchio_registry, only: backend_item
    use benchio_report, only: lf
    use benchio_result, only: latencies, latency_file_bytes, latency_phases, negligible_fraction, &
        new_repetition, operation, repetition, run_result, turn_of_round
    use benchio_statistics, only: median, sorted
    use benchio_text, only: decimal
    use benchio_watchdog, only: new_watchdog, watchdog
    implicit none (type, external)
    private

    type, extends(operation), public :: latency_operation
    contains
        procedure, nopass :: words
        procedure, nopass :: settle
        procedure, nopass :: plan
        procedure :: do_round
        procedure, nopass :: put_round
        procedure, nopass :: says
        procedure, nopass :: table
    end type latency_operation

    !> As latency.c numbers them: what the clock takes by itself, and then as `latency_phases` has
    !> them.
    integer(c_int32_t), parameter :: do_nothing = 0
    integer, parameter :: call_open = 1, call_stat = 2, call_create = 3, call_write = 4, &
        call_read = 5, call_list = 6, calls = 6

    !> Files that are there before a cycle begins: so many cycles lie between the write of a file
    !> and its read.
    integer, parameter :: standing = 32

    !> From the begin of a cycle to that of the next, at least.
    integer(int64), parameter :: nanoseconds = 10_int64**9, cycle_ns = nanoseconds/100

    !> Elements of a file.
    integer, parameter :: elements = latency_file_bytes/8

    !> Pairs of readings of the clock, of which the median is what it takes.
    integer, parameter :: pairs = 1001

    !> A warm-up round need not be longer, seconds.
    integer, parameter :: warmup_seconds = 1

    !> A round as it goes on.
    type :: canary
        type(watchdog) :: guard
        type(failure) :: error
        character(:), allocatable :: directory
        integer :: round = 0
        integer(int64) :: made = 0, read = 0            !! files, from 0
        integer(int64) :: timed = 0                     !! cycles that count
        real(real64), allocatable :: seconds(:, :)      !! (cycle, call)
        logical :: counts = .false.                     !! this cycle does
        real(real64) :: in_memory = 0, unsynced = 0     !! bytes of all files; less than 0: unknown
    end type canary

    interface
        integer(c_int) function c_timed_call(action, path, descriptor, block, bytes, amount, &
            numbers, ns) bind(C, name='benchio_timed_call')
            import :: c_char, c_double, c_int, c_int32_t, c_int64_t
            integer(c_int32_t), value :: action
            character(kind=c_char), intent(in) :: path(*)
            integer(c_int32_t), intent(inout) :: descriptor
            real(c_double), intent(inout) :: block(*)
            integer(c_int64_t), value :: bytes
            integer(c_int64_t), intent(out) :: amount, numbers, ns
        end function c_timed_call

        integer(c_int64_t) function c_wait_until(ns) bind(C, name='benchio_wait_until')
            import :: c_int64_t
            integer(c_int64_t), value :: ns
        end function c_wait_until
    end interface

contains

    function words()
        type(operation_word), allocatable :: words(:)

        words = [operation_word('latency', 'latency: how long one rank waits for one call', &
            '--seconds')]
    end function words

    subroutine settle(choice, given)
        type(options), intent(inout) :: choice
        type(given_options), intent(inout) :: given

        call leave_array_out(choice, given)
        call given%refuse(given%has('--files'), '--operation latency has one rank: leave out ' &
            //'--files')
    end subroutine settle

    subroutine plan(run)
        type(run_result), intent(inout) :: run

        run%bytes = latency_file_bytes
        run%room = (standing + 1)*run%bytes
        run%blocks = standing + 1
        if (run%plan%ranks > 1) call run%error%set(exit_usage, '', '', '--operation latency ' &
            //'takes one rank, not '//decimal(run%plan%ranks))
    end subroutine plan

    function says(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        text = '1 rank, '//decimal(run%choice%seconds)//' s a round, files of 4 KiB'
    end function says

    !> Returns a line per call, in microseconds, of the last round: each quantile with both ends of
    !> its interval.
    function table(run) result(text)
        type(run_result), intent(in) :: run
        character(:), allocatable :: text

        character(12) :: number
        integer :: end, i, q

        associate (latency => run%records(1, run%completed)%latency)
            text = 'repeats '//decimal(run%completed - run%choice%warmup)//'; the last, in ' &
                //'microseconds, with the 95 % interval of each quantile'//lf//lf &
                //'call       calls'
            do q = 1, quantiles
                write (number, '(f12.1)') 100*quantile_parts(q)
                text = text//'       p'//trim(adjustl(number))//'        from          to'
            end do
            text = text//lf
            do i = 1, latencies
                associate (figures => latency%of_call(i))
                    write (number, '(i8)') figures%calls
                    text = text//phase_names(latency_phases(i))//'  '//trim(number)
                    do q = 1, quantiles
                        do end = 1, 3
                            write (number, '(f12.1)') 1e6_real64*figures%values(end, q)
                            if (figures%values(end, q) < 0) number = repeat(' ', 11)//'-'
                            text = text//number
                        end do
                    end do
                end associate
                text = text//lf
            end do
            write (number, '(f12.3)') 1e6_real64*latency%clock
            text = text//lf//'the clock takes '//trim(adjustl(number))//' of each; reads came ' &
                //trim(merge('from below the page cache    ', 'perhaps from the page cache  ', &
                latency%is_cold))//lf//'every byte of every file is as written: read back by ' &
                //'pread on another descriptor, after the sync'//lf
        end associate
    end function table

    !> Puts what single calls took: quantiles, and buckets from the first to the last that has one.
    subroutine put_round(json, path, record)
        type(json_writer), intent(inout) :: json
        character(*), intent(in) :: path
        type(repetition), intent(in) :: record

        character(:), allocatable :: name
        integer :: first, i, last, q

        call json%put(path//'.latency.clock', record%latency%clock)
        call json%put(path//'.latency.cold', record%latency%is_cold)
        do i = 1, size(record%latency%of_call)
            name = path//'.latency.calls.'//trim(phase_names(latency_phases(i)))
            associate (figures => record%latency%of_call(i))
                do q = 1, quantiles
                    call json%put_numbers(name//'.'//trim(quantile_names(q)), figures%values(:, q))
                end do
                call json%put(name//'.longest', figures%longest)
                first = findloc(figures%buckets > 0, .true., 1)
                last = findloc(figures%buckets > 0, .true., 1, back=.true.)
                call json%put(name//'.first_bucket', first - 1)
                call json%put_numbers(name//'.buckets', figures%buckets(first - 1:last - 1))
            end associate
        end do
    end subroutine put_round

    subroutine do_round(self, run, methods, at)
        class(latency_operation), intent(inout) :: self
        type(run_result), intent(inout) :: run
        type(backend_item), intent(in), target :: methods(:)
        type(turn_of_round), intent(in) :: at

        character(:), allocatable :: message
        integer :: code, seconds, slot
        type(canary) :: this
        type(repetition) :: record

        record = new_repetition(run, at)
        seconds = merge(min(warmup_seconds, run%choice%seconds), run%choice%seconds, &
            record%is_warmup)
        this%round = at%round
        this%directory = run%place%run_path//'/latency.round'//decimal(at%round)
        this%guard = new_watchdog(run%choice%phase_limit, run%plan%rank, '', this%directory, &
            this%directory//c_null_char//run%place%directories(), earlier=names_of_all())
        call this%guard%watch('make the directory')
        call attempt(make_directory, this%directory, message)
        if (message /= '') call this%error%set(exit_io, 'mkdir', this%directory, message)
        allocate (this%seconds(seconds*(nanoseconds/cycle_ns) + 1, calls), stat=code)
        if (code /= 0) call this%error%set(exit_internal, 'allocate', this%directory, &
            'no memory for the durations of all calls')
        record%latency%clock = clock_cost()
        call go_through_cycles(run, this, seconds)
        if (this%error%failed()) then
            call this%guard%watch_failed(this%error, is_agreed=.true.)
            do slot = 0, standing
                call attempt(remove_file, path_of(this, int(slot, int64)), message)
            end do
        end if
        call this%guard%watch('remove the directory')
        call attempt(remove_directory, this%directory, message)
        if (message /= '') call this%error%set(exit_io, 'rmdir', this%directory, message)
        call agree_watched(this%guard, run%plan%comm, this%error)
        if (.not. this%error%failed()) call put_figures(this, run%place%mounted%magic, record)
        call this%guard%disarm()
        run%error = this%error
        if (.not. run%error%failed()) run%records(1, at%round) = record

    contains

        !> The names of all files there may be, each ended by NUL.
        function names_of_all() result(names)
            character(:), allocatable :: names

            names = ''
            do slot = 0, standing
                names = names//path_of(this, int(slot, int64))//c_null_char
            end do
        end function names_of_all

    end subroutine do_round

    !> Goes through cycles until the time is over, and then reads and removes what is left.
    subroutine go_through_cycles(run, this, seconds)
        type(run_result), intent(inout) :: run
        type(canary), intent(inout) :: this
        integer, intent(in) :: seconds

        integer(int64) :: begun, over

        over = huge(over)
        do while (.not. this%error%failed())
            begun = c_wait_until(0_c_int64_t)
            this%counts = this%made >= standing     ! the listing has all names from then on
            if (this%counts .and. over == huge(over)) over = begun + seconds*nanoseconds
            ! A clock that goes in steps gives time for more cycles than there is room for.
            if (begun >= over .or. this%timed == size(this%seconds, 1)) exit
            call write_file(run, this)
            if (this%counts) then
                call read_file(run, this)
                call list(this)
                call remove(this)
                this%timed = this%timed + 1
                begun = c_wait_until(begun + cycle_ns)
            end if
            call this%guard%note_end(this%error)
        end do
        this%counts = .false.
        do while (this%read < this%made .and. .not. this%error%failed())
            call read_file(run, this)
            call remove(this)
        end do
    end subroutine go_through_cycles

    !> Makes the next file, writes it and syncs it; its pages are dropped then.
    subroutine write_file(run, this)
        type(run_result), intent(inout) :: run
        type(canary), intent(inout) :: this

        character(:), allocatable :: path
        integer(int64) :: amount, i, key
        integer(c_int32_t) :: descriptor
        real(real64) :: block(elements)

        path = path_of(this, this%made)
        key = key_of(run, this, this%made)
        block = pattern_value([(i, i=0, elements - 1)], key)
        descriptor = -1
        call timed(this, call_create, path, descriptor, block, amount)
        call timed(this, call_write, path, descriptor, block, amount)
        if (this%error%failed()) then
            call close(this, path, descriptor)
            return
        end if
        if (amount /= latency_file_bytes) call this%error%set(exit_io, 'pwrite', path, &
            'only '//decimal(amount)//' bytes were written')
        if (c_drop_pages(descriptor) /= 0) continue     ! it is seen later what is still there
        call add(this%unsynced, c_unsynced(descriptor))
        call close(this, path, descriptor)
        this%made = this%made + 1
        if (this%made > 1 .or. run%completed > 0 .or. this%error%failed()) return
        call this%guard%watch('look at the layout')
        call check_layout(run%place%keeper, path, int(latency_file_bytes, int64), &
            run%place%targets(1)%request, run%seen(1, 1)%layout, this%error)
    end subroutine write_file

    !> Looks at the oldest file, opens it, drops its pages and reads it: all must be as written.
    subroutine read_file(run, this)
        type(run_result), intent(in) :: run
        type(canary), intent(inout) :: this

        character(:), allocatable :: path
        integer(int64) :: amount
        integer(c_int32_t) :: descriptor
        real(real64), target :: block(elements)
        type(differences) :: wrong

        path = path_of(this, this%read)
        descriptor = -1
        block = 0
        call timed(this, call_stat, path, descriptor, block, amount)
        if (amount /= latency_file_bytes) call this%error%set(exit_verification, 'stat', path, &
            'it has '//decimal(amount)//' bytes, and '//decimal(latency_file_bytes) &
            //' were written')
        call timed(this, call_open, path, descriptor, block, amount)
        if (.not. this%error%failed()) then
            if (c_drop_pages(descriptor) /= 0) continue
            call add(this%in_memory, c_resident(descriptor, 0_c_int64_t, &
                int(latency_file_bytes, c_int64_t)))
        end if
        call timed(this, call_read, path, descriptor, block, amount)
        call close(this, path, descriptor)
        if (this%error%failed()) return
        wrong%written = content(key_of(run, this, this%read))
        call wrong%add_run(c_loc(block), int(elements, int64), 0_int64)
        if (amount /= latency_file_bytes .or. wrong%elements > 0) call this%error%set( &
            exit_verification, 'pread', path, wrong%line(int(elements, int64), &
            [int(elements, int64), 1_int64, 1_int64]))
    end subroutine read_file

    !> Lists the directory: all files that are there have their names in it, and nothing else has.
    subroutine list(this)
        type(canary), intent(inout) :: this

        integer(int64) :: amount, numbers
        integer(c_int32_t) :: descriptor
        real(real64) :: block(1)

        descriptor = -1
        block = 0
        call timed(this, call_list, this%directory, descriptor, block, amount, numbers)
        if (amount /= standing + 1 .or. numbers /= standing*(standing + 1)/2) then
            call this%error%set(exit_verification, 'readdir', this%directory, decimal(amount) &
                //' names are listed, and they are not those of the '//decimal(standing + 1) &
                //' files that are there')
        end if
    end subroutine list

    subroutine remove(this)
        type(canary), intent(inout) :: this

        character(:), allocatable :: message

        if (this%error%failed()) return
        call this%guard%watch('unlink')
        call attempt(remove_file, path_of(this, this%read), message)
        if (message /= '') call this%error%set(exit_io, 'unlink', path_of(this, this%read), &
            message)
        this%read = this%read + 1
    end subroutine remove

    !> Does one call, unless something has failed, and notes its time if the cycle counts.
    subroutine timed(this, action, path, descriptor, block, amount, numbers)
        type(canary), intent(inout) :: this
        integer, intent(in) :: action
        character(*), intent(in) :: path
        integer(c_int32_t), intent(inout) :: descriptor
        real(real64), intent(inout) :: block(:)
        integer(int64), intent(out) :: amount
        integer(int64), intent(out), optional :: numbers

        character(:), allocatable :: message, name
        integer(c_int64_t) :: ns, sum_of_names

        amount = 0
        if (present(numbers)) numbers = 0
        if (this%error%failed()) return
        name = trim(phase_names(latency_phases(action)))
        call this%guard%watch(name)
        message = text_of(c_timed_call(int(action, c_int32_t), path//c_null_char, descriptor, &
            block, int(latency_file_bytes, c_int64_t), amount, sum_of_names, ns))
        if (message /= '') call this%error%set(exit_io, name, path, message)
        if (present(numbers)) numbers = sum_of_names
        if (this%counts .and. message == '') then
            this%seconds(this%timed + 1, action) = real(ns, real64)/nanoseconds
        end if
    end subroutine timed

    subroutine close(this, path, descriptor)
        type(canary), intent(inout) :: this
        character(*), intent(in) :: path
        integer(c_int32_t), intent(in) :: descriptor

        character(:), allocatable :: message

        if (descriptor < 0) return
        message = text_of(c_close(int(descriptor, c_int)))
        if (message /= '') call this%error%set(exit_io, 'close', path, message)
    end subroutine close

    !> Adds bytes to those of all files; once they are not known they stay so.
    pure subroutine add(bytes, more)
        real(real64), intent(inout) :: bytes
        integer(int64), intent(in) :: more

        if (more < 0) bytes = -1
        if (bytes >= 0) bytes = bytes + more
    end subroutine add

    !> The path of a file. Names are used again, but contents are not.
    function path_of(this, number) result(path)
        type(canary), intent(in) :: this
        integer(int64), intent(in) :: number        !! of the file, from 0
        character(:), allocatable :: path

        path = this%directory//'/'//decimal(mod(number, standing + 1_int64))
    end function path_of

    integer(int64) function key_of(run, this, number) result(key)
        type(run_result), intent(in) :: run
        type(canary), intent(in) :: this
        integer(int64), intent(in) :: number        !! of the file, from 0

        key = pattern_key(run%choice%run_id, 'latency', int(number), this%round)
    end function key_of

    !> Finds the median of what the clock takes by itself, seconds.
    real(real64) function clock_cost()
        integer(c_int64_t) :: amount, ns, numbers
        integer(c_int32_t) :: descriptor
        integer(c_int) :: code
        integer :: i
        real(real64) :: block(1), seconds(pairs)

        descriptor = -1
        block = 0
        do i = 1, pairs
            code = c_timed_call(do_nothing, c_null_char, descriptor, block, 0_c_int64_t, amount, &
                numbers, ns)
            seconds(i) = real(ns, real64)/nanoseconds
        end do
        clock_cost = median(seconds)
    end function clock_cost

    !> Puts what a round has measured into its record.
    subroutine put_figures(this, magic, record)
        type(canary), intent(in) :: this
        integer(int64), intent(in) :: magic         !! of the filesystem
        type(repetition), intent(inout) :: record

        integer :: i

        allocate (record%latency%of_call(latencies))
        do i = 1, latencies
            record%latency%of_call(i) = distribution_of(sorted(this%seconds(:this%timed, i)))
            associate (figures => record%latency%of_call(i))
                record%times%of_phase(latency_phases(i)) = phase_time(occurs=.true., &
                    min=figures%total, mean=figures%total, max=figures%total, &
                    window=figures%total, file_window=figures%total, operations=figures%calls)
            end associate
        end do
        record%file_bytes = this%made*latency_file_bytes
        record%witness%bytes = record%file_bytes
        record%witness%page_cache_fraction = this%in_memory/record%file_bytes
        if (this%in_memory < 0) record%witness%page_cache_fraction = -1
        record%witness%page_cache_fraction = known_fraction(record%witness%page_cache_fraction, &
            0.0_real64, magic)
        record%witness%unsynced_fraction = this%unsynced/record%file_bytes
        if (this%unsynced < 0) record%witness%unsynced_fraction = -1
        record%latency%is_cold = record%witness%page_cache_fraction >= 0 &
            .and. record%witness%page_cache_fraction <= negligible_fraction
    end subroutine put_figures

end module benchio_latency
