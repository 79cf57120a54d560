package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
)

var background = context.Background()

var checks = []struct {
	name string
	run  func(*Client) (any, error)
}{
	{"login_with_verified_tls", loginWithVerifiedTLS},
	{"login_without_tls", loginWithoutTLS},
	{"wrong_password", wrongPassword},
	{"types", types},
	{"text_of_types", textOfTypes},
	{"parameters", parameters},
	{"prepared_twice", preparedTwice},
	{"commit", func(c *Client) (any, error) { return transaction(c, "commit", (*sql.Tx).Commit) }},
	{"rollback", func(c *Client) (any, error) {
		return transaction(c, "rollback", (*sql.Tx).Rollback)
	}},
	{"errors", serverErrors},
	{"cancel", cancel},
	{"several_result_sets", severalResultSets},
	{"row_counts", rowCounts},
	{"unicode", unicode},
	{"long_text", longText},
	{"nulls", nulls},
	{"types_written", typesWritten},
	{"output_parameters", outputParameters},
	{"savepoint", savepoint},
}

func loginWithVerifiedTLS(c *Client) (any, error) {
	rows, err := fetch(c.db, "SELECT 1")
	if err != nil {
		return nil, err
	}
	stranger, err := administrator(
		map[string]string{"encrypt": "true", "hostNameInCertificate": "localhost"})
	if err != nil {
		return nil, err
	}
	defer stranger.Close()
	_, err = fetch(stranger, "SELECT 1")
	refused := err != nil && strings.Contains(err.Error(), "certificate signed by unknown authority")
	return map[string]any{"rows": rows, "refused_without_the_ca": refused}, nil
}

func loginWithoutTLS(c *Client) (any, error) {
	db, err := administrator(map[string]string{"encrypt": "disable"})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := fetch(db, "SELECT 1")
	return map[string]any{"rows": rows}, err
}

func wrongPassword(c *Client) (any, error) {
	db, err := open(env("USER"), c.expected.WrongPassword.Password, verified())
	if err != nil {
		return nil, err
	}
	defer db.Close()
	_, err = fetch(db, "SELECT 1")
	var problem mssql.Error
	if !errors.As(err, &problem) {
		return nil, fmt.Errorf("no error of the server: %w", err)
	}
	return map[string]any{"number": problem.Number}, nil
}

func types(c *Client) (any, error) {
	names, digits := []string{}, []int{}
	for _, column := range c.expected.Types.Columns {
		names, digits = append(names, column.Name), append(digits, column.Digits)
	}
	table := c.expected.Types.Table
	found, err := c.db.Query(
		"SELECT " + strings.Join(names, ", ") + " FROM " + table + " ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer found.Close()
	rows, err := set(found, digits)
	if err != nil {
		return nil, err
	}
	versions := []*string{}
	column, err := fetch(c.db, "SELECT c_rowversion FROM "+table+" ORDER BY id")
	for _, row := range column {
		versions = append(versions, row[0])
	}
	return map[string]any{"rows": rows, "rowversions": versions}, err
}

func textOfTypes(c *Client) (any, error) { return textOf(c, c.expected.Types.Table) }

func textOf(c *Client, table string) (any, error) {
	texts := []string{}
	for _, column := range c.expected.Types.Columns {
		if column.Text != "" {
			texts = append(texts, column.Text)
		}
	}
	return fetch(c.db, "SELECT "+strings.Join(texts, ", ")+
		" FROM "+table+" ORDER BY id")
}

// marked puts the driver's parameter marks where a statement has {1}, {2} ...
func marked(text string) string {
	return strings.NewReplacer("{1}", "@p1", "{2}", "@p2", "{3}", "@p3", "{4}", "@p4").Replace(text)
}

// bound are values from JSON; its numbers stand for integers.
func bound(values []any) []any {
	result := make([]any, len(values))
	for place, value := range values {
		result[place] = value
		if number, ok := value.(float64); ok {
			result[place] = int64(number)
		}
	}
	return result
}

func parameters(c *Client) (any, error) {
	rows, err := fetch(c.db, marked(c.expected.Parameters.SQL), bound(c.expected.Parameters.Values)...)
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

func preparedTwice(c *Client) (any, error) {
	statement, err := c.db.Prepare(marked(c.expected.PreparedTwice.SQL))
	if err != nil {
		return nil, err
	}
	defer statement.Close()
	result := [][]Row{}
	for _, one := range c.expected.PreparedTwice.Runs {
		found, err := statement.Query(bound(one.Values)...)
		if err != nil {
			return nil, err
		}
		rows, err := set(found, nil)
		if err != nil {
			return nil, err
		}
		result = append(result, rows)
	}
	return result, nil
}

// scratch makes a table for one check and puts its name where statements have {table}.
func (c *Client) scratch(name string) (func(string) string, error) {
	into := func(text string) string { return strings.ReplaceAll(text, "{table}", "dbo.go_"+name) }
	_, err := c.db.Exec(into(c.expected.Scratch.Create))
	return into, err
}

func transaction(c *Client, name string, end func(*sql.Tx) error) (any, error) {
	into, err := c.scratch(name)
	if err != nil {
		return nil, err
	}
	open, err := c.db.Begin()
	if err != nil {
		return nil, err
	}
	for _, statement := range c.expected.Transactions.Statements {
		if _, err := open.Exec(into(statement)); err != nil {
			return nil, errors.Join(err, open.Rollback())
		}
	}
	read := into(c.expected.Transactions.Read)
	inside, err := fetch(open, read)
	if err != nil {
		return nil, errors.Join(err, open.Rollback())
	}
	if err := end(open); err != nil {
		return nil, err
	}
	other, err := administrator(verified())
	if err != nil {
		return nil, err
	}
	defer other.Close()
	after, err := fetch(other, read)
	return map[string]any{"inside": inside, "after": after}, err
}

func serverErrors(c *Client) (any, error) {
	reader, err := open(env("READER"), env("READER_PASSWORD"), verified())
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	result := []any{}
	for _, one := range c.expected.Errors.Cases {
		db := c.db
		if one.Login == "reader" {
			db = reader
		}
		connection, err := db.Conn(background)
		if err != nil {
			return nil, err
		}
		defer connection.Close()
		_, err = fetch(connection, one.SQL)
		var problem mssql.Error
		if !errors.As(err, &problem) {
			return nil, fmt.Errorf("%s: no error of the server: %w", one.Name, err)
		}
		then, err := fetch(connection, c.expected.Errors.Then.SQL)
		if err != nil {
			return nil, err
		}
		result = append(result, map[string]any{
			"name": one.Name, "number": problem.Number, "severity": problem.Class,
			"text": problem.Message, "then": then,
		})
	}
	return result, nil
}

func cancel(c *Client) (any, error) {
	result := []any{}
	for _, statement := range c.expected.Cancel.Statements {
		connection, err := c.db.Conn(background)
		if err != nil {
			return nil, err
		}
		defer connection.Close()
		began := time.Now()
		err = cancelled(connection, statement, c.expected.Cancel.AfterSeconds)
		seconds := time.Since(began).Seconds()
		then, thenErr := fetch(connection, c.expected.Cancel.Then.SQL)
		if thenErr != nil {
			return nil, thenErr
		}
		result = append(result, map[string]any{
			"cancelled": errors.Is(err, context.Canceled), "seconds": seconds, "then": then,
		})
	}
	return result, nil
}

// cancelled runs a statement and reads all of it, until a timer cancels that. Not a context's
// own deadline: its error is a net.Error, after which the driver gives the connection up.
func cancelled(connection *sql.Conn, statement string, seconds float64) error {
	cancellable, stop := context.WithCancel(background)
	defer stop()
	timer := time.AfterFunc(time.Duration(seconds*float64(time.Second)), stop)
	defer timer.Stop()
	rows, err := connection.QueryContext(cancellable, statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	for {
		for rows.Next() {
		}
		if !rows.NextResultSet() {
			return rows.Err()
		}
	}
}

func severalResultSets(c *Client) (any, error) {
	rows, err := c.db.Query(c.expected.SeveralResultSets.SQL)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	sets, columns := [][]Row{}, [][]string{}
	for {
		names, err := rows.Columns()
		if err != nil {
			return nil, err
		}
		one, err := set(rows, nil)
		if err != nil {
			return nil, err
		}
		sets, columns = append(sets, one), append(columns, names)
		if !rows.NextResultSet() {
			break
		}
	}
	return map[string]any{"sets": sets, "columns": columns}, rows.Err()
}

func rowCounts(c *Client) (any, error) {
	into, err := c.scratch("row_counts")
	if err != nil {
		return nil, err
	}
	counts := []int64{}
	for _, one := range c.expected.RowCounts {
		ended, err := c.db.Exec(into(one.SQL))
		if err != nil {
			return nil, err
		}
		count, err := ended.RowsAffected()
		if err != nil {
			return nil, err
		}
		counts = append(counts, count)
	}
	return counts, nil
}

// written writes a text through a parameter and reads it back.
func written(c *Client, insert, read string, id int, text string) (Row, error) {
	if _, err := c.db.Exec(marked(insert), id, text); err != nil {
		return nil, err
	}
	rows, err := fetch(c.db, marked(read), id)
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

func unicode(c *Client) (any, error) {
	into, err := c.scratch("unicode")
	if err != nil {
		return nil, err
	}
	result := []any{}
	for id, one := range c.expected.Unicode.Texts {
		order := c.expected.Unicode
		row, err := written(c, into(order.Insert), into(order.Read), id, one.Text)
		if err != nil {
			return nil, err
		}
		literal := strings.ReplaceAll(order.Literal, "{text}", strings.ReplaceAll(one.Text, "'", "''"))
		found, err := fetch(c.db, literal)
		if err != nil {
			return nil, err
		}
		result = append(result, map[string]any{"read": row, "literal": found[0][0]})
	}
	return result, nil
}

func longText(c *Client) (any, error) {
	into, err := c.scratch("long_text")
	if err != nil {
		return nil, err
	}
	order, result := c.expected.LongText, []Row{}
	for id, count := range order.Characters {
		// Each character of the unit is one UTF-16 code unit.
		text := string([]rune(strings.Repeat(order.Unit, count))[:count])
		row, err := written(c, into(order.Insert), into(order.Read), id, text)
		if err != nil {
			return nil, err
		}
		result = append(result, row)
	}
	return result, nil
}

func nulls(c *Client) (any, error) {
	into, err := c.scratch("nulls")
	if err != nil {
		return nil, err
	}
	order := c.expected.Nulls
	if _, err := c.db.Exec(marked(into(order.Insert)), bound(order.Values)...); err != nil {
		return nil, err
	}
	rows, err := fetch(c.db, into(order.Read))
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}
