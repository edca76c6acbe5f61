import java.io.BufferedReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.regex.Pattern;

/**
 * Matches patterns against names as isolation policies do: whole names, java.util.regex.
 *
 * <p>Each line of the file is a pattern and its names, Base64 of UTF-8, separated by spaces. Each
 * line of the answer is E for a pattern that Java refuses, or one digit a name.
 */
public final class PatternDriver {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        try (BufferedReader lines = Files.newBufferedReader(Path.of(args[0]))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                out.println(answer(line.split(" ", -1)));
            }
        }
        out.flush();
    }

    private static String answer(String[] words) {
        Pattern pattern;
        try {
            pattern = Pattern.compile(text(words[0]));
        } catch (IllegalArgumentException e) {
            return "E";
        }
        StringBuilder found = new StringBuilder();
        for (int i = 1; i < words.length; i++) {
            found.append(pattern.matcher(text(words[i])).matches() ? '1' : '0');
        }
        return found.toString();
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
