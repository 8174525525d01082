!> Every host is listed once, wherever its ranks are.
program test_hosts
    use benchio_result_json, only: distinct
    use check, only: expect
    implicit none (type, external)

    call expect(same(['n1'], [1]), 'one host')
    call expect(same(['n2', 'n2', 'n1', 'n1', 'n3'], [1, 3, 5]), 'ranks of a host as neighbours')
    call expect(same(['n1', 'n2', 'n1', 'n2', 'n3', 'n1'], [1, 2, 5]), 'ranks in turns')
    call expect(same([character(2) ::], [integer ::]), 'no rank')

contains

    !> Whether these are the first ranks of each host.
    logical function same(hosts, first)
        character(*), intent(in) :: hosts(:)        !! of each rank
        integer, intent(in) :: first(:)             !! ranks, from 1

        associate (ranks => distinct(hosts))
            same = size(ranks) == size(first)
            if (same) same = all(ranks == first)
        end associate
    end function same

end program test_hosts
