import java.io.BufferedReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Sorts lists of numbers by their whole difference, as AvgShedder of old releases does.
 *
 * <p>Usage: SortDriver CASES. CASES holds one list a line, numbers with blanks between them; the positions in sorted
 * order are printed for each, or "failed" where the sort notices that the comparison is no order.
 */
public class SortDriver {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        try (BufferedReader lines = Files.newBufferedReader(Path.of(arguments[0]))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                double[] values = Arrays.stream(line.split(" ")).mapToDouble(Double::parseDouble).toArray();
                out.println(sorted(values));
            }
        }
        out.flush();
    }

    private static String sorted(double[] values) {
        try {
            List<Integer> order = IntStream.range(0, values.length).boxed()
                    .sorted((one, other) -> (int) (values[one] - values[other])).collect(Collectors.toList());
            return order.stream().map(String::valueOf).collect(Collectors.joining(" "));
        } catch (IllegalArgumentException failed) {
            return "failed";
        }
    }
}
