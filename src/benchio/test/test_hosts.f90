!> Every host is listed once, wherever its ranks are.
program test_hosts
    use benchio_json_writer, only: json_writer
    use benchio_result_json, only: add_hosts
    use check, only: expect
    implicit none (type, external)

    character(1), parameter :: lf = new_line('a')

    call lists(['n1'], '"n1"')
    call lists(['n2', 'n2', 'n1', 'n1', 'n3'], '"n2",'//lf//'    "n1",'//lf//'    "n3"')
    call lists(['n1', 'n2', 'n1', 'n2', 'n3', 'n1'], '"n1",'//lf//'    "n2",'//lf//'    "n3"')

contains

    subroutine lists(hosts, expected)
        character(*), intent(in) :: hosts(:), expected

        type(json_writer) :: json

        call json%open_object()
        call add_hosts(json, hosts)
        call json%close_object()
        call expect(json%text() == '{'//lf//'  "hosts": ['//lf//'    '//expected//lf//'  ]'//lf &
            //'}'//lf, 'hosts as '//json%text())
    end subroutine lists

end program test_hosts
