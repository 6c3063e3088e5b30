"""Tables of sheets that were made for people: side by side, with headers of several rows."""


def test_tables_side_by_side_are_read_one_after_the_other(read_file, blocks):
    content = (
        ",Item,Amount,,Total,Rest\n,Salary,2500,,In May,1414\n"
        ",Other,250,,In June,1500\n,Rent,800,,,\n,Gas,50,,,\n,Food,500,,,\n"
    )
    assert blocks(read_file("a.csv", content)) == [
        ("table", "Item | Amount\nSalary | 2500\nOther | 250\nRent | 800\nGas | 50\nFood | 500"),
        ("table", "Total | Rest\nIn May | 1414\nIn June | 1500"),
    ]


def test_tables_side_by_side_with_the_same_header_are_told_apart(read_file, blocks):
    content = "City,People,,City,People\nOslo,7,,Rome,28\nBern,1,,Kiel,2\n"
    assert blocks(read_file("a.csv", content)) == [
        ("table", "City | People\nOslo | 7\nBern | 1"),
        ("table", "City | People\nRome | 28\nKiel | 2"),
    ]


def test_numbers_after_an_empty_column_stay_with_their_row(read_file, blocks):
    content = "Item,,2019,2018\nRevenue,,7,6\nCosts,,3,2\nTax,\nRent,\nFood,\nGas,\n"
    ((_, shown),) = blocks(read_file("a.csv", content))
    assert "Revenue |  | 7 | 6" in shown


def test_a_header_of_several_rows_names_each_column_once(read_file, blocks):
    content = (
        "Function,Percent,Minimum\n,of Hires,Monthly\n,,Salary\n"
        "Consulting,16%,1000\nSales,9%,5000\n"
    )
    ((_, shown),) = blocks(read_file("a.csv", content))
    assert shown == (
        "Function | Percent of Hires | Minimum Monthly Salary\n"
        "Consulting | 16% | 1000\nSales | 9% | 5000"
    )


def test_a_row_of_words_below_the_header_is_no_part_of_it(read_file, blocks):
    content = "Team,Won,Trainer\nReds,none,Ann\nBlues,3,Bo\nGreens,4,Cy\nPinks,5,Di\nGreys,6,Ed\n"
    ((_, shown),) = blocks(read_file("a.csv", content))
    assert shown.startswith("Team | Won | Trainer\nReds | none | Ann\n")


def test_a_title_above_a_header_with_a_gap_is_text(read_file, blocks):
    content = "FULL RATE,,SINGLE,\nEuro,,1997,1998\n6000,,5%,4%\n8000,,6%,5%\n"
    assert blocks(read_file("a.csv", content)) == [
        ("text", "FULL RATE SINGLE"),
        ("table", "Euro |  | 1997 | 1998\n6000 |  | 5% | 4%\n8000 |  | 6% | 5%"),
    ]
