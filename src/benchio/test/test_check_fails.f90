!> Must fail.
program test_check_fails
    use check, only: expect
    implicit none (type, external)

    call expect(.false., 'this is meant to fail')
end program test_check_fails
