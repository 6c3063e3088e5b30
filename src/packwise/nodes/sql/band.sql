-- Functions of nodes: what a combined score means in a word.

CREATE OR REPLACE FUNCTION packwise_band(score double precision) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN score >= 0.85 THEN 'high' WHEN score >= 0.70 THEN 'good'
        WHEN score >= 0.50 THEN 'partial' ELSE 'low' END $$;
